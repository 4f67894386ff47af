package verbs_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// linkLocals gives an interface two link-local addresses and returns both as names of devices.
// The second names the interface by its number.
func linkLocals(t *testing.T) (a, b string) {
	t.Helper()
	l, _ := hosttest.Cable(t, "ll0", "10.1.2.3/24")
	lo, err := netlink.LinkByName("lo") // packets to the own host travel by lo
	hosttest.Must(t, err)
	hosttest.Must(t, netlink.LinkSetUp(lo))
	for _, s := range []string{"fe80::a5/64", "fe80::b5/64"} {
		x, err := netlink.ParseAddr(s)
		hosttest.Must(t, err)
		x.Flags = unix.IFA_F_NODAD
		hosttest.Must(t, netlink.AddrAdd(l, x))
	}
	return "fe80::a5%ll0", fmt.Sprintf("fe80::b5%%%d", l.Attrs().Index)
}

// Packets have no zones but the addresses of devices do. A connection between link-local
// addresses recognizes its peer's packets on each path.
func TestConnectionOverLinkLocalAddresses(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	nameA, nameB := linkLocals(t)
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		for name, cfg := range map[string]verbs.Config{
			"process": {}, "memory": {NoLoopback: true, SameHost: verbs.SameHostRequire}, "network": {NoLoopback: true, SameHost: verbs.SameHostOff},
		} {
			t.Run(fmt.Sprint(typ, " ", name), func(t *testing.T) {
				e := ends{a: nameA, b: nameB, qp: verbs.QPConfig{Type: typ}, config: cfg}
				a, b := e.pair(t)
				if got := b.dev.Addr().Addr().Zone(); got != "ll0" {
					t.Errorf("zone of a device that was opened by its interface's number: %q, expected ll0", got)
				}
				fill(a.buf, 1)
				b.recv(t, 1, 0, 5000)
				a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 5000)}})
				a.ok(t, verbs.WCSend)
				b.ok(t, verbs.WCRecv)
				if !bytes.Equal(a.buf[:5000], b.buf[:5000]) {
					t.Error("other bytes arrived")
				}
			})
		}
	}
}
