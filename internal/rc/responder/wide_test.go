package responder

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// Peers that ask for more share the store evenly. One that has stopped asking leaves its share to
// the others, and so does one whose queue pair ends.
func TestWideSharesAreEven(t *testing.T) {
	const room = 90 << 20
	s := NewStore(room)
	ask := func(o *reordering, seconds int) int {
		n := s.share(time.Duration(seconds)*time.Second, o)
		o.store, o.wide = s, wide{span: 1, at: time.Duration(seconds) * time.Second}
		return n
	}
	var a, b, c reordering
	for _, x := range []struct {
		who     *reordering
		seconds int
		part    int
	}{{&a, 0, 1}, {&b, 1, 2}, {&a, 2, 2}, {&c, 3, 3}, {&c, 12, 2}, {&c, 14, 1}, {&a, 15, 2}} {
		if n := ask(x.who, x.seconds); n != room/x.part {
			t.Errorf("after %d s: %d bytes, expected 1/%d of %d", x.seconds, n, x.part, room)
		}
	}
	if b.wide.span != 0 {
		t.Error("a peer that asks no more keeps its share")
	}
	c.narrow()
	if n := ask(&a, 16); n != room {
		t.Errorf("%d bytes for the last one", n)
	}
}

// What is held far behind the expected PSN is reported as it is when the peer has lost its share of the store. The
// ranges of an acknowledge that is not wide have no room for such distances.
func TestReportAfterTheShareIsLost(t *testing.T) {
	p := machinetest.New(qp.RC, 5, 4)
	p.Attr.State, p.Attr.PathMTU = qp.RTS, 1024
	c := &conn.Conn{Port: &p.Port, Done: machine.NewCompletions(&p.Port), Stop: func() {}, Peer: conn.Selective, Trusted: true}
	var r Responder
	r.Init(c, NewStore(512<<20))
	r.Start()
	in := &machine.In{}
	in.Opcode, in.Wide = ib.RCSendOnly, true
	r.Widen(0, in)
	const far = 1<<16 + 5
	in.PSN = r.Expected().Add(far)
	if !r.hold(in, in.Opcode.Info(), far) {
		t.Fatal("not held")
	}
	var other reordering
	for range 2 {
		var out machine.Out
		r.Report(0, &out)
		if !out.Wide {
			t.Fatal("the report is not wide")
		}
		w, ranges, ok := own.ParseWideAck(out.Pieces[0])
		if !ok || w.Span != r.span() {
			t.Fatalf("%x is reported", out.Pieces[0])
		}
		at, n := w.Begin, uint32(0)
		for i := range len(ranges) / own.RangeLen {
			skip, count := own.RangeOf(ranges, i)
			at, n = at+skip, n+count
		}
		if at != far || n != 1 {
			t.Errorf("%d requests %d PSNs ahead are reported, expected 1, %d ahead", n, at, far)
		}
		r.store.share(wideTime+time.Second, &other)
	}
	if r.wide.span != 0 {
		t.Error("the peer keeps its share")
	}
}
