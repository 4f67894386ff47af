package cm

import (
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// With the parameters of quick the active side waits 2×16.8 ms of packet life and 4.2 ms for each
// answer, and the passive side 4.2 ms.
const (
	activeWait  = 2*4096*time.Nanosecond<<12 + 4096*time.Nanosecond<<10
	passiveWait = 4096 * time.Nanosecond << 10
)

// accept makes a host accept every request, answer disconnects and confirm replies.
func (h *host) accept() {
	h.user = func(e seen) {
		switch e.Kind {
		case EventReqReceived:
			h.w.must(e.Conn.Accept(h.w.now, &accepting))
		case EventRepReceived:
			h.w.must(e.Conn.Ready(h.w.now, []byte("ready")))
		case EventDreqReceived:
			h.w.must(e.Conn.DisconnectReply(h.w.now, []byte("gone")))
		}
	}
}

// This test loses up to three of each message.
func TestLostMessagesAreSentAgain(t *testing.T) {
	for _, attr := range []mad.AttributeID{mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrDREQ, mad.AttrDREP} {
		for n := 1; n <= 3; n++ {
			w, a, b, _ := pair(t)
			a.accept()
			b.accept()
			w.loseFirst(attr, n)
			ca := a.connect(b)
			w.pass(200 * time.Millisecond)
			cb := b.one(EventReqReceived).Conn
			w.state(ca, Established)
			w.state(cb, Established)
			if e := b.one(EventRtuReceived); string(e.Private[:6]) != "ready\x00" {
				t.Errorf("%v lost %d times: the RTU says %q", attr, n, e.Private)
			}
			w.must(ca.Disconnect(w.now, nil))
			w.pass(400 * time.Millisecond)
			b.one(EventDreqReceived)
			if e := a.one(EventDrepReceived); attr != mad.AttrDREP && string(e.Private[:5]) != "gone\x00" {
				t.Errorf("%v lost %d times: the DREP says %q", attr, n, e.Private)
			}
			w.settle(time.Second)
			total := a.sent[attr] + b.sent[attr]
			if total != n+1 {
				t.Errorf("%v was sent %d times, %d of them were lost", attr, total, n)
			}
			ca.Destroy(w.now)
			cb.Destroy(w.now)
			a.empty()
			b.empty()
		}
	}
}

// This test delivers each datagram three times.
func TestDuplicatedMessagesHaveNoEffect(t *testing.T) {
	w, a, b, _ := pair(t)
	a.accept()
	b.accept()
	w.copies = func() int { return 3 }
	ca := a.connect(b)
	w.pass(50 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	w.must(cb.Disconnect(w.now, nil))
	w.settle(time.Second)
	if a.kinds() != "RepReceived DreqReceived TimewaitExit" || b.kinds() != "ReqReceived RtuReceived DrepReceived TimewaitExit" {
		t.Errorf("a heard %q, b heard %q", a.kinds(), b.kinds())
	}
	if a.refusals(reason.CMDuplicate) == 0 || b.refusals(reason.CMDuplicate) == 0 {
		t.Errorf("refused: %v, %v", a.refused, b.refused)
	}
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	a.empty()
	b.empty()
}

// In this test the peer dies in each state that waits for it.
func TestTimeoutsAreNamedAndBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		start  func(testing.TB) (*world, *host, *host, *Conn, *Conn)
		act    func(w *world, ca, cb *Conn) error // runs before b, or a, dies
		aLives bool
		wait   time.Duration
		event  Kind
		reason reason.Reason
		after  State
	}{
		{"REQ", requested, nil, true, activeWait, EventReqTimeout, reason.CMReqTimeout, Idle},
		{"REP", requested, func(w *world, _, cb *Conn) error { return cb.Accept(w.now, &accepting) }, false, passiveWait, EventRepTimeout, reason.CMRepTimeout, Timewait},
		{"DREQ of the active side", established, func(w *world, ca, _ *Conn) error { return ca.Disconnect(w.now, nil) }, true, activeWait, EventDreqTimeout, reason.CMDreqTimeout, Timewait},
		{"DREQ of the passive side", established, func(w *world, _, cb *Conn) error { return cb.Disconnect(w.now, nil) }, false, passiveWait, EventDreqTimeout, reason.CMDreqTimeout, Timewait},
	} {
		w, a, b, ca, cb := c.start(t)
		lives, dies, own := a, b, ca
		if !c.aLives {
			lives, dies, own = b, a, cb
		}
		dies.dead = true
		began := w.now
		if c.act != nil {
			w.must(c.act(w, ca, cb))
		} else {
			began = 0 // Connect was called at the beginning
		}
		for own.State() != c.after && w.now < time.Second {
			w.pass(time.Millisecond / 8)
		}
		e := lives.one(c.event)
		if want := 4 * c.wait; e.at-began != want {
			t.Errorf("%s: gave up after %v, expected %v", c.name, e.at-began, want)
		}
		if e.Conn != own || e.Detail.Reason != c.reason || e.Detail.Expected != 3 || lives.refusals(c.reason) != 1 {
			t.Errorf("%s: %v", c.name, e.Detail)
		}
		w.settle(time.Second)
		w.state(own, Idle)
		own.Destroy(w.now)
		lives.empty()
	}
}

// The other end receives REJ 4 and does not have to time out.
func TestTimeoutRejectsToThePeer(t *testing.T) {
	w, a, b, ca, cb := requested(t) // b never answers
	w.settle(time.Second)
	a.one(EventReqTimeout)
	if e := b.one(EventRejReceived); e.Reject != mad.RejectTimeout || e.Conn != cb || string(e.ARI) != "\x00\x00\x00\x00\x00\x00\x00\x0a" || e.Detail.Reason != reason.CMRejected {
		t.Errorf("b heard reject %v, %q, %v", e.Reject, e.ARI, e.Detail)
	}
	w.state(cb, Idle)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	a.empty()
	b.empty()

	// The same for the passive side, whether its REP arrived or not.
	for _, arrives := range []bool{true, false} {
		w, a, b, ca, cb := requested(t)
		w.lose = func(_ *host, h *mad.Header) bool { return h.Attribute == mad.AttrREP && !arrives }
		w.must(cb.Accept(w.now, &accepting)) // a never makes ready
		w.settle(time.Second)
		b.one(EventRepTimeout)
		if e := a.one(EventRejReceived); e.Reject != mad.RejectTimeout || e.Conn != ca {
			t.Errorf("REP arrives %v: a heard reject %v", arrives, e.Reject)
		}
		w.state(ca, Idle)
		ca.Destroy(w.now)
		cb.Destroy(w.now)
		a.empty()
		b.empty()
	}
}

// IBTA 12.6.6: the peer waits for the service timeout.
func TestDelayExtendsTheWait(t *testing.T) {
	const field = 15 // 134 ms
	service := 4096 * time.Nanosecond << field
	w, a, b, ca, cb := requested(t)
	w.must(cb.Delay(w.now, field, []byte("wait")))
	w.pass(2 * time.Millisecond)
	w.state(ca, MRAReqReceived)
	w.state(cb, MRAReqSent)
	e := a.one(EventMraReceived)
	if e.ServiceTimeout != field || string(e.Private[:5]) != "wait\x00" {
		t.Errorf("the MRA says %d, %q", e.ServiceTimeout, e.Private)
	}
	sent := a.sent[mad.AttrREQ]
	w.pass(service)
	if a.sent[mad.AttrREQ] != sent {
		t.Error("the REQ was sent again within the service timeout")
	}
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	// The same for the REP, in the other direction.
	w.must(ca.Delay(w.now, field, nil))
	w.pass(2 * time.Millisecond)
	w.state(ca, MRARepSent)
	w.state(cb, MRARepReceived)
	sent = b.sent[mad.AttrREP]
	w.pass(service)
	if b.sent[mad.AttrREP] != sent {
		t.Error("the REP was sent again within the service timeout")
	}
	w.must(ca.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(ca, Established)
	w.state(cb, Established)
	// The extended wait ends as well.
	w, a, _, _, cb = requested(t)
	w.must(cb.Delay(w.now, field, nil))
	w.settle(5 * (service + 4096*time.Nanosecond<<13))
	if e := a.one(EventReqTimeout); e.at < 4*service {
		t.Errorf("gave up at %v", e.at)
	}
}

// rdma_cm uses this option.
func TestDelayOnDuplicateSendsMRAOnlyForDuplicates(t *testing.T) {
	w, a, b, ca, cb := requested(t)
	w.must(cb.Delay(w.now, DelayOnDuplicate|16, nil))
	w.pass(activeWait - 3*time.Millisecond)
	if b.sent[mad.AttrMRA] != 0 {
		t.Fatal("the MRA was sent before the REQ came again")
	}
	w.pass(6 * time.Millisecond)
	if b.sent[mad.AttrMRA] != 1 || a.one(EventMraReceived).ServiceTimeout != 16 {
		t.Errorf("%d MRAs sent", b.sent[mad.AttrMRA])
	}
	w.state(ca, MRAReqReceived)
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.state(ca, RepReceived)
	w.must(ca.Delay(w.now, DelayOnDuplicate|16, nil))
	w.pass(passiveWait + 2*time.Millisecond)
	if a.sent[mad.AttrMRA] != 1 || b.one(EventMraReceived).Conn != cb {
		t.Errorf("%d MRAs sent to the REP's double", a.sent[mad.AttrMRA])
	}
}

// IBTA 12.9.6.
func TestFirstPacketReplacesTheRTU(t *testing.T) {
	w, _, b, ca, cb := replied(t)
	w.lose = func(_ *host, h *mad.Header) bool { return h.Attribute == mad.AttrRTU }
	w.must(ca.Ready(w.now, nil))
	w.must(cb.Establish(w.now))
	w.settle(time.Second)
	w.state(cb, Established)
	if b.one(EventEstablished).Conn != cb || b.sent[mad.AttrREP] > 2 {
		t.Errorf("b heard %q and sent %d REPs", b.kinds(), b.sent[mad.AttrREP])
	}
	// A late RTU is treated as a duplicate.
	w.lose = func(*host, *mad.Header) bool { return false }
	ca.sendRTU()
	w.pass(2 * time.Millisecond)
	if b.refusals(reason.CMDuplicate) != 1 || b.one(EventEstablished).Conn != cb {
		t.Errorf("refused %v, heard %q", b.refused, b.kinds())
	}
}

// The RTU is lost, and the DREQ arrives at a side that still waits for the RTU.
func TestDisconnectBeforeTheRTUCame(t *testing.T) {
	w, a, b, ca, _ := replied(t)
	w.lose = func(_ *host, h *mad.Header) bool { return h.Attribute == mad.AttrRTU }
	b.accept()
	w.must(ca.Ready(w.now, nil))
	w.must(ca.Disconnect(w.now, nil))
	w.settle(time.Second)
	if b.kinds() != "ReqReceived DreqReceived TimewaitExit" || a.kinds() != "RepReceived DrepReceived TimewaitExit" {
		t.Errorf("a heard %q, b heard %q", a.kinds(), b.kinds())
	}
}

func TestBothDisconnectAtOnce(t *testing.T) {
	w, a, b, ca, cb := established(t)
	a.accept()
	b.accept()
	w.must(ca.Disconnect(w.now, nil))
	w.must(cb.Disconnect(w.now, nil))
	w.settle(time.Second)
	a.one(EventDreqReceived)
	b.one(EventDreqReceived)
	a.one(EventTimewaitExit)
	b.one(EventTimewaitExit)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	a.empty()
	b.empty()
}

// DREQs are repeated until the user replies.
func TestDisconnectUnansweredByTheUser(t *testing.T) {
	w, a, b, ca, cb := established(t)
	w.must(ca.Disconnect(w.now, nil))
	w.pass(activeWait + 5*time.Millisecond)
	w.state(cb, DreqReceived)
	if a.sent[mad.AttrDREQ] != 2 || b.refusals(reason.CMDuplicate) != 1 {
		t.Errorf("%d DREQs, refused %v", a.sent[mad.AttrDREQ], b.refused)
	}
	w.must(cb.DisconnectReply(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(ca, Timewait)
	b.one(EventDreqReceived)
}

// The timeout is 2^delay + 2×2^life, rounded to what the exponents allow.
func TestAckTimeout(t *testing.T) {
	for _, c := range []struct{ delay, life, want uint8 }{
		{0, 16, 17}, {15, 16, 17}, {16, 16, 18}, {17, 16, 18}, {18, 16, 19}, {19, 16, 19}, {15, 18, 19},
		{15, 12, 15}, {15, 13, 16}, {15, 14, 16}, {31, 31, 31}, {30, 30, 31}, {0, 0, 2},
	} {
		if got := ackTimeout(c.delay, c.life); got != c.want {
			t.Errorf("ACK delay %d and packet life time %d give %d, expected %d", c.delay, c.life, got, c.want)
		}
	}
	if duration(20) != 4294967296*time.Nanosecond || duration(0) != time.Millisecond || duration(200) != duration(31) {
		t.Errorf("durations %v, %v, %v", duration(20), duration(0), duration(200))
	}
}
