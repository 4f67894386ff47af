//go:build !linux || softrdma_portable

package udp

import (
	"errors"
	"net/netip"
	"testing"
)

func TestPortableLinkHasOneLane(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:0")
	if _, err := OpenLanes(local, Config{}, 2); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("two lanes: %v, expected ErrUnsupported", err)
	}
	links, err := OpenLanes(local, Config{}, 1)
	if err != nil || len(links) != 1 {
		t.Fatalf("one lane: %v, %v", links, err)
	}
	_ = links[0].Close()
}
