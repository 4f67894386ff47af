package adapter

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// What is known of a path is found, forgotten in time and replaced under each form of the peer's address.
func TestPathsAreRememberedForEachFormOfAnAddress(t *testing.T) {
	for _, c := range []struct{ learned, asked string }{
		{"fe80::1%eth0", "fe80::1%eth0"}, {"fe80::1%eth0", "fe80::1"}, {"fe80::1", "fe80::1%eth0"}, {"::ffff:10.0.0.1", "10.0.0.1"},
		{"10.0.0.1", "::ffff:10.0.0.1"}, {"2001:db8::1", "2001:db8::1"},
	} {
		now := time.Second
		d := &Device{clock: func() time.Duration { return now }}
		peer := netip.MustParseAddr(c.asked)
		learn := func(passes uint16) {
			q := &QP{Port: machine.Port{Attr: qp.Attr{PathMTU: 4096}, Passes: passes}}
			q.flow = &txFlow{Flow: &frame.Flow{Peer: netip.AddrPortFrom(netip.MustParseAddr(c.learned), 4791)}}
			d.paths.learn(now, q)
		}
		expect := func(what string, mtu, entries int) {
			t.Helper()
			if got := PathMTU(d, peer); got != mtu || len(d.paths.narrow) != entries {
				t.Errorf("%+v: %s: expected path MTU %d and %d entries, found %d and %d", c, what, mtu, entries, got, len(d.paths.narrow))
			}
		}
		learn(1024)
		expect("narrow", 1024, 1)
		learn(4096)
		expect("whole again", 0, 0)
		learn(512)
		now += pathTime + 1
		expect("after its time", 0, 0)
	}
}
