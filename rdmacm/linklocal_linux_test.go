package rdmacm

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// The zone of an address may be the name of an interface or its number.
func TestDialLinkLocalAddresses(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	lo, err := netlink.LinkByName("lo") // carries what this host sends to its own addresses
	hosttest.Must(t, err)
	hosttest.Must(t, netlink.LinkSetUp(lo))
	link, _ := hosttest.Cable(t, "ll0", "10.1.2.3/24")
	x, err := netlink.ParseAddr("fe80::a5/64")
	hosttest.Must(t, err)
	x.Flags = unix.IFA_F_NODAD
	hosttest.Must(t, netlink.AddrAdd(link, x))
	for _, zones := range [][2]any{{"ll0", "ll0"}, {link.Attrs().Index, "ll0"}, {"ll0", link.Attrs().Index}} {
		for _, protocol := range []verbs.Protocol{verbs.RoCE, verbs.IWARP} {
			l, err := Listen(fmt.Sprintf("[fe80::a5%%%v]:7471", zones[0]), ListenConfig{Protocol: protocol, QP: verbs.QPConfig{MaxInline: 64}})
			hosttest.Must(t, err)
			server := accepted(t, l)
			d := Dialer{Protocol: protocol, QP: verbs.QPConfig{MaxInline: 64}}
			c, err := d.Dial(within(t), fmt.Sprintf("[fe80::a5%%%v]:7471", zones[1]))
			hosttest.Must(t, err)
			s := server()
			talk(t, c, s, "over a link-local address")
			talk(t, s, c, "and back")
			closed(t, c)
			closed(t, s)
			closed(t, l)
		}
	}
}
