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

// newAsking makes a responder, and the request of its peer that asks for more.
func newAsking(s *Store) (*Responder, *machine.In) {
	p := machinetest.New(qp.RC, 5, 4)
	p.Attr.State, p.Attr.PathMTU, p.Attr.MaxDestRdAtomic = qp.RTS, 1024, 2
	c := &conn.Conn{Port: &p.Port, Done: machine.NewCompletions(&p.Port), Stop: func() {}, Peer: conn.Selective, Trusted: true}
	r := new(Responder)
	r.Init(c, s)
	r.Start()
	in := &machine.In{}
	in.Opcode, in.Wide = ib.RCReadRequest, true
	return r, in
}

// What is remembered is freed later if answers are owed when the peer has not asked for long.
func TestKeptReadsAreForgottenWhenAnswered(t *testing.T) {
	r, in := newAsking(NewStore(512 << 20))
	r.Widen(0, in)
	for i := range 100 {
		r.history.vacant(2, int(r.wide.kept))
		var in machine.In
		in.PSN = r.Expected().Add(i)
		r.history.remember(&in, 0)
	}
	now := keepTime
	if r.Expire(now); len(r.history.ring) < 100 {
		t.Fatal("an answer that is owed is forgotten")
	}
	for r.history.pending > 0 {
		r.history.answered(r.history.oldest())
	}
	for range 10 {
		if now = r.Deadline(); now == machine.Never {
			break
		}
		r.Expire(now)
	}
	if n := len(r.history.ring); n != 2*conn.KeepFactor || now != machine.Never {
		t.Errorf("%d places, next look after %v", n, now)
	}
}

// Less may be agreed on meanwhile, and nothing at all.
func TestKeptReadsAreForgottenWhereNoneIsAllowed(t *testing.T) {
	r, in := newAsking(NewStore(512 << 20))
	r.Widen(0, in)
	r.history.vacant(2, 2)
	r.p.Attr.MaxDestRdAtomic = 0
	if r.Expire(keepTime); r.Deadline() != machine.Never {
		t.Errorf("next look after %v", r.Deadline())
	}
}

// A peer relies on what an acknowledge says for some seconds, also if it has not asked for it. So an acknowledge does not say
// what may be forgotten before.
func TestReportDoesNotSayWhatIsSoonForgotten(t *testing.T) {
	r, in := newAsking(NewStore(512 << 20))
	r.Widen(0, in)
	for _, c := range []struct {
		at   time.Duration
		kept uint32
	}{{0, conn.MaxKept}, {keepTime / 2, conn.MaxKept}, {keepTime/2 + 1, 0}, {keepTime - 1, 0}} {
		var out machine.Out
		r.Report(c.at, &out)
		if w, _, ok := own.ParseWideAck(out.Pieces[0]); !ok || w.Kept != c.kept {
			t.Errorf("after %v: %d READs are remembered, expected %d", c.at, w.Kept, c.kept)
		}
	}
	r.Widen(keepTime-1, in)
	var out machine.Out
	r.Report(keepTime, &out)
	if w, _, _ := own.ParseWideAck(out.Pieces[0]); w.Kept != conn.MaxKept {
		t.Errorf("%d READs are remembered", w.Kept)
	}
}

// Peers that ask one after the other do not get what is promised to those before.
func TestKeptReadsOfAllPeersAreBounded(t *testing.T) {
	s := NewStore(512 << 20)
	const step = wideTime + time.Second
	all, most := 0, 0
	var list []*Responder
	for i := range 100 {
		r, in := newAsking(s)
		r.Widen(time.Duration(i)*step, in)
		list = append(list, r)
		for k := i - 10; k >= 0; k -= 10 {
			list[k].Widen(time.Duration(i)*step, in)
		}
		most += conn.MaxKept / (i + 1)
	}
	for _, r := range list {
		all += int(r.wide.kept)
	}
	if all > most {
		t.Errorf("%d READs are remembered, expected %d at most", all, most)
	}
	now := 100 * step
	for i, r := range list {
		switch i % 3 {
		case 0:
			r.Stop()
			r.Stop()
		case 1:
			r.Reset()
		default:
			r.Expire(now + keepTime)
			r.Expire(now + keepTime)
		}
	}
	r, in := newAsking(s)
	if r.Widen(now+keepTime, in); r.wide.kept != conn.MaxKept {
		t.Errorf("%d READs are remembered for the only one", r.wide.kept)
	}
}
