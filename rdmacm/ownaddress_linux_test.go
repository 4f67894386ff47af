package rdmacm

import (
	"testing"

	"github.com/vishvananda/netlink"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// TestDialOwnAddressWorksBetweenProcesses: client and server are two processes on one machine,
// and the client uses the server's address on the network.
func TestDialOwnAddressWorksBetweenProcesses(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	assign(t, lo, "10.98.0.1/32")
	lan, _ := hosttest.Cable(t, "lan0", "10.99.0.1/24")
	assign(t, lan, "fd99::1/64")
	wide, _ := hosttest.Cable(t, "jumbo0", "10.97.0.1/24")
	must(t, netlink.LinkSetMTU(wide, 9000))
	for _, c := range []struct {
		name, server string
		device       string // of the client; "" means chosen by the route
		want         int    // path MTU
	}{
		{"address of an Ethernet interface", "10.99.0.1", "", 1024},
		{"its IPv6 address", "fd99::1", "", 1024},
		{"address of a jumbo interface", "10.97.0.1", "", 4096},
		{"address of the loopback interface", "10.98.0.1", "", 4096},
		{"loopback", "127.0.0.1", "", 4096},
		{"IPv6 loopback", "::1", "", 4096},
		{"Ethernet from a jumbo interface", "10.99.0.1", "10.97.0.1", 1024},
		{"jumbo from an Ethernet interface", "10.97.0.1", "10.99.0.1", 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Dialer{QP: small}
			if c.device != "" {
				dev, err := verbs.Open(c.device, verbs.Config{})
				must(t, err)
				defer dev.Close()
				d.Device = dev
			}
			p := startPeer(t, c.server)
			conn, err := d.Dial(within(t), p.ask().Addr)
			must(t, err)
			defer conn.Close()
			if got := conn.QP().Query().PathMTU; got != c.want {
				t.Errorf("path MTU %d, expected %d", got, c.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// assign adds an address to an interface, which can be used at once.
func assign(t *testing.T, l netlink.Link, addr string) {
	t.Helper()
	a, err := netlink.ParseAddr(addr)
	must(t, err)
	a.Flags = 0x02 // IFA_F_NODAD
	must(t, netlink.AddrAdd(l, a))
}
