package registry

import (
	"net/netip"
	"testing"

	"softrdma/internal/cmid"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
)

// A device is one at a host of an Ethernet.
type device struct{ at netip.AddrPort }

func (h *device) Addr() netip.AddrPort { return h.at }
func (*device) Close() error           { return nil }

// Of several devices that reach a host the same one is chosen each time: that of the host itself, else the
// first.
func TestDevicesOnAnEthernetAreChosenInOrder(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:4", func(*live.Config) {})
	var r Registry
	var hosts []netip.Addr
	for i := range f.Adapters {
		p := f.AttachHost(i)
		hosts = append(hosts, p.Info().Addrs[0])
		if i > 0 {
			r.Add(&Entry{Handle: &device{netip.AddrPortFrom(hosts[i], 4791)}, Ethernet: p})
		}
	}
	for range 20 {
		for i, dst := range hosts {
			if e, found := r.onEthernet(dst, cmid.Any); !found || e.Handle.Addr().Addr() != hosts[max(i, 1)] {
				t.Fatalf("to %v by %v", dst, e.Handle.Addr())
			}
		}
	}
}
