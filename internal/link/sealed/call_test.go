package sealed

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"

	"softrdma/internal/reason"
)

// A peer that does not trust this end refuses it, whether it says so before its offer or after.
func TestRefusalBeforeOrAfterTheOfferIsECONNREFUSED(t *testing.T) {
	for name, c := range map[string]struct {
		waited, remote bool
		want           bool
	}{
		"before":      {true, true, true},
		"after":       {false, true, true},
		"by this end": {true, false, false},
	} {
		call := &call{m: &Meeting{ended: context.Background()}, at: netip.MustParseAddrPort("127.0.0.1:4791"), waited: c.waited}
		err := call.named(&quic.TransportError{Remote: c.remote, ErrorCode: 0x130}, true)
		var why *reason.Error
		if !errors.As(err, &why) || why.Detail.Reason != reason.TLSHandshake {
			t.Errorf("%s: expected %v, found %v", name, reason.TLSHandshake, err)
		}
		if errors.Is(err, syscall.ECONNREFUSED) != c.want {
			t.Errorf("%s: expected ECONNREFUSED %v, found %v", name, c.want, err)
		}
	}
}
