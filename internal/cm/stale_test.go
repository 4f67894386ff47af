package cm

import (
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// The process of a dies and restarts with the same queue pair number (IBTA 12.4.1).
func TestStaleConnectionIsEndedAndTheNextTryWorks(t *testing.T) {
	w, a, b, _, old := established(t)
	a.restart(0xa)
	a.events, b.events = nil, nil
	c1 := a.connect(b)
	w.pass(10 * time.Millisecond)
	if e := a.one(EventRejReceived); e.Reject != mad.RejectStaleConnection || e.Conn != c1 {
		t.Fatalf("rejected with %v", e.Reject)
	}
	if e := b.events[0]; e.Kind != EventStaleConnection || e.Conn != old || e.Detail.Reason != reason.CMStale || e.Detail.Found != 0x11 {
		t.Fatalf("b heard %v, %v", e.Kind, e.Detail)
	}
	// The restarted a does not know the old connection and confirms its end.
	if b.kinds() != "StaleConnection DrepReceived" {
		t.Fatalf("b heard %q", b.kinds())
	}
	w.state(old, Timewait)
	c2 := a.connect(b)
	w.pass(2 * time.Millisecond)
	next := b.one(EventReqReceived).Conn
	w.must(next.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.must(c2.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(next, Established)
	for _, c := range []*Conn{old, c1, c2, next} {
		c.Destroy(w.now)
	}
	w.settle(time.Second)
	a.empty()
	b.empty()
}

// The passive side restarted with the same queue pair number, and the active side still holds the
// old connection.
func TestStaleReplyIsRejected(t *testing.T) {
	w, a, b, old, _ := established(t)
	b.restart(0xb)
	_, err := b.m.Listen(w.now, service)
	w.must(err)
	b.events = nil
	qpn := uint32(0x22)
	b.user = func(e seen) {
		if e.Kind == EventReqReceived {
			p := accepting
			p.QPN = qpn
			qpn++
			w.must(e.Conn.Accept(w.now, &p))
		}
	}
	p := a.quick(b)
	p.QPN = 0x33
	c, err := a.m.Connect(w.now, p)
	w.must(err)
	w.pass(10 * time.Millisecond)
	if b.one(EventRejReceived).Reject != mad.RejectStaleConnection {
		t.Errorf("b heard %q", b.kinds())
	}
	w.state(c, ReqSent)
	w.state(old, Timewait)
	// The REQ is repeated, and b uses another queue pair for it.
	w.pass(activeWait)
	w.state(c, RepReceived)
	if c.RemoteQPN() != 0x23 {
		t.Errorf("connected to queue pair %#x", c.RemoteQPN())
	}
}

// Two devices may share a GUID.
func TestSameGUIDAtAnotherAddressIsNotStale(t *testing.T) {
	w, _, b, _, cb := established(t)
	c := w.host("c", "192.0.2.3:4791", 0xa)
	b.events = nil
	c.connect(b)
	w.pass(2 * time.Millisecond)
	b.one(EventReqReceived)
	w.state(cb, Established)
}

// IBTA 12.10.4.
func TestSimultaneousRequestsMakeOneConnection(t *testing.T) {
	for _, c := range []struct {
		name         string
		guidA, guidB uint64
		qpnA, qpnB   uint32
		aIsActive    bool
		skew         time.Duration // delay of b's request
	}{
		{"greater GUID", 2, 1, 5, 9, true, 0},
		{"smaller GUID", 1, 2, 9, 5, false, 0},
		{"same GUID, greater QPN", 7, 7, 9, 5, true, 0},
		{"same GUID, smaller QPN", 7, 7, 5, 9, false, 0},
		{"a much earlier and active", 2, 1, 5, 9, true, 60 * time.Millisecond},
		{"a much earlier and passive", 1, 2, 5, 9, false, 60 * time.Millisecond},
	} {
		w := newWorld(t, 9)
		a, b := w.host("a", "192.0.2.1:4791", c.guidA), w.host("b", "192.0.2.2:4791", c.guidB)
		a.accept()
		b.accept()
		ask := func(h, to *host, qpn uint32) *Conn {
			p := h.quick(to)
			p.QPN, p.PeerToPeer = qpn, true
			conn, err := h.m.Connect(w.now, p)
			w.must(err)
			if _, err := h.m.Connect(w.now, p); err == nil {
				t.Errorf("%s: a second crossing request is allowed", c.name)
			}
			return conn
		}
		ca := ask(a, b, c.qpnA)
		w.pass(c.skew)
		cb := ask(b, a, c.qpnB)
		w.pass(200 * time.Millisecond)
		w.state(ca, Established)
		w.state(cb, Established)
		if ca.RemoteID() != cb.LocalID() || cb.RemoteID() != ca.LocalID() {
			t.Errorf("%s: the two ends are of different connections", c.name)
		}
		active, passive := "RepReceived", "ReqReceived RtuReceived"
		if !c.aIsActive {
			active, passive = passive, active
		}
		if a.kinds() != active || b.kinds() != passive {
			t.Errorf("%s: a heard %q, b heard %q", c.name, a.kinds(), b.kinds())
		}
		x, y := checkTransitions(t, ca), checkTransitions(t, cb)
		if x.SQPSN != y.RQPSN || x.RQPSN != y.SQPSN {
			t.Errorf("%s: PSNs do not fit", c.name)
		}
		ca.Destroy(w.now)
		cb.Destroy(w.now)
		w.settle(time.Second)
		a.empty()
		b.empty()
	}
}

// Without PeerToPeer each request makes its own connection.
func TestSimultaneousRequestsOfListenersMakeTwo(t *testing.T) {
	w, a, b, _ := pair(t)
	_, err := a.m.Listen(w.now, service)
	w.must(err)
	a.accept()
	b.accept()
	ca := a.connect(b)
	p := b.quick(a)
	p.QPN = 0x44
	cb, err := b.m.Connect(w.now, p)
	w.must(err)
	w.pass(50 * time.Millisecond)
	w.state(ca, Established)
	w.state(cb, Established)
	if a.m.Count().Conns != 2 || b.m.Count().Conns != 2 {
		t.Errorf("a holds %+v, b %+v", a.m.Count(), b.m.Count())
	}
}

// A reflected request arrives at the device that sent it.
func TestOwnRequestReflectedIsNoPeer(t *testing.T) {
	w, a, _, _ := pair(t)
	p := a.quick(a)
	p.PeerToPeer = true
	c, err := a.m.Connect(w.now, p)
	w.must(err)
	w.settle(time.Second)
	a.one(EventReqTimeout) // no other event
	w.state(c, Idle)
	if a.refusals(reason.CMService) != 4 {
		t.Errorf("refused %v", a.refused)
	}
}

// Both ends are on one manager.
func TestLoopbackConnects(t *testing.T) {
	w, _, b, _ := pair(t)
	b.user = func(e seen) {
		switch e.Kind {
		case EventReqReceived:
			w.must(e.Conn.Accept(w.now, &accepting))
		case EventRepReceived:
			w.must(e.Conn.Ready(w.now, nil))
		case EventDreqReceived:
			w.must(e.Conn.DisconnectReply(w.now, nil))
		}
	}
	c := b.connect(b)
	w.pass(10 * time.Millisecond)
	w.state(c, Established)
	other := b.one(EventReqReceived).Conn
	w.state(other, Established)
	w.must(c.Disconnect(w.now, nil))
	w.settle(time.Second)
	c.Destroy(w.now)
	other.Destroy(w.now)
	b.empty()
}
