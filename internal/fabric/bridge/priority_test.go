package bridge

import (
	"net/netip"
	"testing"

	"softrdma/internal/fabric/dcb"
)

// A frame takes room on the priority on which it came, and waits on the one with which it leaves.
func TestRaisedPriorityLeavesAndTheOldOneHasTheRoom(t *testing.T) {
	w := newWorld(t, Config{Address: 0x020000000099, Ports: ports(2, pfc(0xff)), Remark: RaisePriorities(3, 5)})
	w.sw.AddRoute(netip.MustParsePrefix("10.0.0.0/8"), Hop{Port: 2, Address: host(2)})
	for _, c := range []struct{ came, leaves uint8 }{{2 << 3, 2 << 3}, {3<<3 + 1, 4<<3 + 1}, {4 << 3, 5 << 3}, {5 << 3, 5 << 3}} {
		came, leaves := c.came>>3, c.leaves>>3
		send := func() {
			w.receive(1, func(f *dcb.Frame) {
				f.Dst, f.IP, f.DSCP, f.Hops, f.To = 0x020000000099, true, c.came, 9, dcb.IPv4(10<<24|2)
			})
			w.run(w.now + dcb.Microsecond)
		}
		w.sent = nil
		w.pause(2, 0xffff, 1<<leaves)
		send()
		held, _, _ := w.sw.Held(1, came)
		if len(w.to()) != 0 || held == 0 || w.sw.Port(2).Ready() != 1<<leaves {
			t.Errorf("code point %d: left by %v in a pause of %d, %d bytes held on %d", c.came, w.to(), leaves, held, came)
		}
		w.pause(2, 0, 1<<leaves)
		w.run(w.now + dcb.Microsecond)
		if held, _, _ := w.sw.Held(1, came); len(w.to()) != 1 || w.sent[len(w.sent)-1].f.DSCP != c.leaves || held != 0 || w.sw.Buffer().Used != 0 {
			t.Errorf("code point %d: left as %+v, %d bytes held", c.came, w.sent, held)
		}
	}
}
