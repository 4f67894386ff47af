package cm

import (
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib/own"
	"softrdma/internal/wire/mad"
)

// The cases name the side that rejects and the state of both sides afterwards.
func TestRejectInEachStateEndsBothSides(t *testing.T) {
	for _, c := range []struct {
		name    string
		start   func(testing.TB) (*world, *host, *host, *Conn, *Conn)
		prepare func(w *world, ca, cb *Conn) error
		active  bool // rejects
		of      mad.Which
		own     State // after it
		other   State
	}{
		{"REQ received", requested, nil, false, mad.OfREQ, Idle, Idle},
		{"MRA sent", requested, func(w *world, _, cb *Conn) error { return cb.Delay(w.now, 10, nil) }, false, mad.OfREQ, Idle, Idle},
		{"REP received", replied, nil, true, mad.OfREP, Idle, Idle},
		{"MRA to the REP sent", replied, func(w *world, ca, _ *Conn) error { return ca.Delay(w.now, 10, nil) }, true, mad.OfREP, Idle, Idle},
		{"REP sent", replied, nil, false, mad.OfOther, Timewait, Timewait},
	} {
		w, a, b, ca, cb := c.start(t)
		if c.prepare != nil {
			w.must(c.prepare(w, ca, cb))
			w.pass(2 * time.Millisecond)
		}
		by, to, own, other := b, a, cb, ca
		if c.active {
			by, to, own, other = a, b, ca, cb
		}
		w.must(own.Reject(w.now, mad.RejectConsumer, []byte{1, 2, 3}, []byte("no")))
		w.state(own, c.own)
		w.pass(2 * time.Millisecond)
		w.state(other, c.other)
		e := to.one(EventRejReceived)
		if e.Conn != other || e.Reject != mad.RejectConsumer || string(e.ARI) != "\x01\x02\x03" || string(e.Private[:3]) != "no\x00" || len(e.Private) != mad.REJPrivateLen {
			t.Errorf("%s: heard %v, %x, %q", c.name, e.Reject, e.ARI, e.Private)
		}
		if j := lastREJ(t, by); j.Of != c.of {
			t.Errorf("%s: the REJ is of %v, expected %v", c.name, j.Of, c.of)
		}
		w.settle(time.Second)
		ca.Destroy(w.now)
		cb.Destroy(w.now)
		a.empty()
		b.empty()
	}
}

// The active side does not know the peer's communication ID yet.
func TestRejectMayOvertakeTheReply(t *testing.T) {
	w, a, b, ca, cb := requested(t)
	w.lose = func(_ *host, h *mad.Header) bool { return h.Attribute == mad.AttrREP }
	w.must(cb.Accept(w.now, &accepting))
	cb.Destroy(w.now)
	w.pass(2 * time.Millisecond)
	if e := a.one(EventRejReceived); e.Conn != ca || e.Reject != mad.RejectConsumer {
		t.Errorf("heard %v", e.Reject)
	}
	d := b.last[mad.AttrREP]
	a.m.Receive(w.now, back(b.origin(), 0), d[:]) // the REP arrives
	w.settle(time.Second)
	w.state(ca, Idle)
	ca.Destroy(w.now)
	a.empty()
	b.empty()
}

// The first REJ was lost.
func TestReadyForARejectedConnectionIsRejectedAgain(t *testing.T) {
	for _, r := range []mad.RejectReason{mad.RejectConsumer, mad.RejectTimeout} {
		w, a, b, ca, cb := replied(t)
		w.loseFirst(mad.AttrREJ, 1)
		if r == mad.RejectTimeout {
			w.pass(4*passiveWait + 3*time.Millisecond)
			b.one(EventRepTimeout)
		} else {
			w.must(cb.Reject(w.now, r, nil, nil))
		}
		w.must(ca.Ready(w.now, nil))
		w.pass(3 * time.Millisecond)
		if e := a.one(EventRejReceived); e.Conn != ca || e.Reject != r {
			t.Errorf("heard %v, expected %v", e.Reject, r)
		}
		w.state(ca, Timewait)
	}
}

// Linux behaves the same.
func TestRejectOfAnEstablishedConnectionEndsIt(t *testing.T) {
	w, a, b, ca, cb := established(t)
	j := mad.REJ{LocalID: cb.LocalID(), RemoteID: ca.LocalID(), Of: mad.OfOther, Reason: mad.RejectUnsupported}
	a.m.Receive(w.now, back(b.origin(), 0), craft(mad.AttrREJ, &j))
	w.work()
	if a.one(EventRejReceived).Reject != mad.RejectUnsupported {
		t.Error(a.kinds())
	}
	w.state(ca, Timewait)
	a.m.Receive(w.now, back(b.origin(), 0), craft(mad.AttrREJ, &j)) // a second REJ has no effect
	if a.refusals(reason.CMDuplicate) != 1 {
		t.Errorf("refused %v", a.refused)
	}
}

// The number of the queue pair must not be reused at once.
func TestRejectStaleKeepsTheQueuePairWaiting(t *testing.T) {
	w, a, _, ca, cb := requested(t)
	w.must(cb.Reject(w.now, mad.RejectStaleConnection, nil, nil))
	w.pass(2 * time.Millisecond)
	w.state(ca, Timewait)
	w.settle(time.Second)
	a.one(EventTimewaitExit)
}

// A softrdma peer is told why a request is refused that no program has answered, in what the standard
// leaves free: the private data are the program's alone.
func TestReleasedRequestTellsThePeerWhy(t *testing.T) {
	for _, kept := range []bool{false, true} {
		w, a, b, ca, cb := requested(t)
		b.m.config.KeepReasons = kept
		cb.Decline(w.now, reason.Detail{Reason: reason.CMServiceType, Expected: 2, Found: 3})
		w.pass(2 * time.Millisecond)
		want := reason.Detail{Reason: reason.CMServiceType, Expected: 2, Found: 3}
		if kept {
			want = reason.Detail{}
		}
		if e := a.one(EventRejReceived); e.Conn != ca || e.Reject != mad.RejectConsumer || e.Said != want || string(e.Private) != string(make([]byte, mad.REJPrivateLen)) {
			t.Errorf("kept %v: heard %v, %v, %x", kept, e.Reject, e.Said, e.Private)
		}
		if j := lastREJ(t, b); kept && j.InfoLen != 0 {
			t.Errorf("kept, and %x sent", j.ARI())
		}
	}
}

// Additional information of others, and of other rejections, says nothing.
func TestOnlyAReasonOfAConsumersREJIsOne(t *testing.T) {
	r := own.Reason{Number: uint32(reason.CMServiceType), Expected: 2, Found: 3}
	valid := r.AppendInfo(nil)
	for name, c := range map[string]struct {
		code mad.RejectReason
		info []byte
		n    int // the length that the message claims
		want reason.Reason
	}{
		"valid":           {mad.RejectConsumer, valid, len(valid), reason.CMServiceType},
		"another code":    {mad.RejectInvalidGID, valid, len(valid), reason.None},
		"no information":  {mad.RejectConsumer, nil, 0, reason.None},
		"another's":       {mad.RejectConsumer, []byte("another vendor's information"), 28, reason.None},
		"cut":             {mad.RejectConsumer, valid, len(valid) - 1, reason.None},
		"a wrong length":  {mad.RejectConsumer, valid, 127, reason.None}, // more than a reason may have
		"a later version": {mad.RejectConsumer, append(valid[:len(valid):len(valid)], 1, 2, 3, 4), len(valid) + 4, reason.CMServiceType},
	} {
		j := mad.REJ{Reason: c.code, InfoLen: uint8(c.n)}
		copy(j.Info[:], c.info)
		if d := said(&j); d.Reason != c.want {
			t.Errorf("%s: %v", name, d)
		}
	}
}
