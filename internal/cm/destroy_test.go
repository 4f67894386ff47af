package cm

import (
	"testing"
	"time"

	"softrdma/internal/wire/mad"
)

// This test checks the message to the other end, that no event follows, and that nothing is left.
func TestDestroyInEachState(t *testing.T) {
	both := []bool{true, false}
	for _, c := range []struct {
		name    string
		start   func(testing.TB) (*world, *host, *host, *Conn, *Conn)
		prepare func(w *world, ca, cb *Conn) error
		active  bool // the active side is destroyed
		state   State
		other   Kind // the event at the other end
		reject  mad.RejectReason
	}{
		{"REQ sent", requested, nil, true, ReqSent, EventRejReceived, mad.RejectTimeout},
		{"MRA received", requested, func(w *world, _, cb *Conn) error { return cb.Delay(w.now, 10, nil) }, true, MRAReqReceived, EventRejReceived, mad.RejectTimeout},
		{"REQ received", requested, nil, false, ReqReceived, EventRejReceived, mad.RejectConsumer},
		{"MRA sent", requested, func(w *world, _, cb *Conn) error { return cb.Delay(w.now, 10, nil) }, false, MRAReqSent, EventRejReceived, mad.RejectConsumer},
		{"REP received", replied, nil, true, RepReceived, EventRejReceived, mad.RejectConsumer},
		{"MRA to the REP sent", replied, func(w *world, ca, _ *Conn) error { return ca.Delay(w.now, 10, nil) }, true, MRARepSent, EventRejReceived, mad.RejectConsumer},
		{"REP sent", replied, nil, false, RepSent, EventRejReceived, mad.RejectConsumer},
		{"MRA to the REP received", replied, func(w *world, ca, _ *Conn) error { return ca.Delay(w.now, 10, nil) }, false, MRARepReceived, EventRejReceived, mad.RejectConsumer},
		{"established, active", established, nil, true, Established, EventDreqReceived, 0},
		{"established, passive", established, nil, false, Established, EventDreqReceived, 0},
		{"DREQ sent", established, func(w *world, ca, _ *Conn) error { return ca.Disconnect(w.now, nil) }, true, DreqSent, EventDreqReceived, 0},
		{"DREQ received", established, func(w *world, ca, _ *Conn) error { return ca.Disconnect(w.now, nil) }, false, DreqReceived, EventDrepReceived, 0},
	} {
		for _, lossy := range both {
			w, a, b, ca, cb := c.start(t)
			if c.prepare != nil {
				w.must(c.prepare(w, ca, cb))
				if c.state != DreqSent { // the DREQ must still be in flight
					w.pass(2 * time.Millisecond)
				}
			}
			own, other, mine, theirs := ca, cb, a, b
			if !c.active {
				own, other, mine, theirs = cb, ca, b, a
			}
			w.state(own, c.state)
			if lossy && c.reject == 0 { // a lost DREQ or DREP is repeated, a lost REJ is not
				w.loseFirst(mad.AttrDREQ, 2)
			}
			heard := len(mine.events)
			if c.other == EventDreqReceived {
				theirs.accept()
			}
			own.Destroy(w.now)
			own.Destroy(w.now) // harmless
			if n := mine.m.Count().Conns; n != 0 {
				t.Errorf("%s: %d connections after Destroy", c.name, n)
			}
			w.settle(time.Second)
			if len(mine.events) != heard {
				t.Errorf("%s: heard %q after Destroy", c.name, mine.kinds())
			}
			e := theirs.one(c.other)
			if e.Conn != other || e.Reject != c.reject {
				t.Errorf("%s: the other end heard %v, reject %v", c.name, e.Kind, e.Reject)
			}
			w.state(other, Idle)
			mine.empty()
			other.Destroy(w.now)
			theirs.empty()
		}
	}
}

// Both ends close at once, or the DREP of one end is lost after it was destroyed.
func TestDestroyedConnectionConfirmsADisconnect(t *testing.T) {
	w, a, b, ca, cb := established(t)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	w.settle(time.Second)
	a.empty()
	b.empty()
	if a.kinds() != "RepReceived" || b.kinds() != "ReqReceived RtuReceived" {
		t.Errorf("a heard %q, b heard %q", a.kinds(), b.kinds())
	}
	w, a, b, ca, cb = established(t)
	w.must(ca.Disconnect(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.loseFirst(mad.AttrDREP, 3)
	w.must(cb.DisconnectReply(w.now, nil))
	cb.Destroy(w.now)
	w.settle(time.Second)
	a.one(EventDrepReceived)
	ca.Destroy(w.now)
	a.empty()
	b.empty()
}

// Nothing is left, whatever the state was.
func TestDestroyWithADeadPeerEnds(t *testing.T) {
	for _, start := range []func(testing.TB) (*world, *host, *host, *Conn, *Conn){requested, replied, established} {
		for _, active := range []bool{true, false} {
			w, a, b, ca, cb := start(t)
			own, mine, theirs := ca, a, b
			if !active {
				own, mine, theirs = cb, b, a
			}
			theirs.dead = true
			heard := len(mine.events)
			own.Destroy(w.now)
			if d := mine.m.Deadline() - w.now; d > time.Hour && mine.m.Count().Detached > 0 {
				t.Errorf("a destroyed connection waits %v", d)
			}
			w.settle(time.Second)
			mine.empty()
			if len(mine.events) != heard {
				t.Errorf("heard %q", mine.kinds())
			}
		}
	}
}

// Requests that the listener has reported survive its closing.
func TestRequestOutlivesItsListener(t *testing.T) {
	w, a, b, l := pair(t)
	ca := a.connect(b)
	w.pass(2 * time.Millisecond)
	l.Close()
	cb := b.one(EventReqReceived).Conn
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.must(ca.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(cb, Established)
	if l.Waiting() != 0 || b.m.Count().Listeners != 0 {
		t.Errorf("%d wait, %+v", l.Waiting(), b.m.Count())
	}
}

// A user may destroy a connection whose request was withdrawn before the user read its event.
func TestDestroyWithUnreadEvents(t *testing.T) {
	w, a, b, ca, cb := requested(t)
	b.m.SetHandler(nil)
	ca.Destroy(w.now)
	w.pass(2 * time.Millisecond)
	w.state(cb, Idle)
	cb.Destroy(w.now)
	a.empty()
	b.empty()
}
