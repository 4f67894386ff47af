package link

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
)

func TestNeighbourErrorSaysWhy(t *testing.T) {
	err := &NeighbourError{Addr: netip.MustParseAddr("10.0.0.9"), Interface: "eth0"}
	if want := "no MAC address of 10.0.0.9 is known on eth0: no host there has answered for the address"; err.Error() != want {
		t.Errorf("%q, expected %q", err, want)
	}
	err.Err = syscall.ENETUNREACH
	if want := "no MAC address of 10.0.0.9 is known on eth0: network is unreachable"; err.Error() != want || !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("%q, expected %q", err, want)
	}
}
