package cm

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A peer that answers no DREQ of an unknown connection does not answer a challenge either. It is
// admitted when it repeats its REQ.
func TestManagerThatIgnoresChallengesIsAdmittedOnRepetition(t *testing.T) {
	w, _, b, _ := pair(t)
	b.m.screening.suspect(w.now) // from here on every request is challenged
	peer := netip.MustParseAddrPort("192.0.2.77:4791")
	q := asks(b, b)
	q.Primary.LocalGID = mad.GIDFrom(peer.Addr())
	for i, want := range []int{0, 0, 1} {
		b.m.Receive(w.now, back(peer, 0), craft(mad.AttrREQ, &q))
		w.work()
		if len(b.events) != want {
			t.Fatalf("after %d requests b heard %q", i+1, b.kinds())
		}
		if w.pass(10 * time.Millisecond); i == 1 { // so soon, the second request counts as a duplicate of the network
			w.pass(4 * time.Second)
		}
	}
	if b.sent[mad.AttrDREQ] != 2 {
		t.Errorf("b sent %v", b.sent)
	}
}

// A DREP from another address proves nothing.
func TestChallengeNeedsItsAnswerFromItsAddress(t *testing.T) {
	w, _, b, _ := pair(t)
	b.m.screening.suspect(w.now)
	peer := netip.MustParseAddrPort("192.0.2.77:4791")
	q := asks(b, b)
	q.Primary.LocalGID = mad.GIDFrom(peer.Addr())
	b.m.Receive(w.now, back(peer, 0), craft(mad.AttrREQ, &q))
	w.work()
	var h mad.Header
	var c mad.DREQ
	sent := b.last[mad.AttrDREQ]
	mad.ParseHeader(sent[:], &h)
	if c.Parse(&sent); c.RemoteID != q.LocalID || c.LocalID == 0 {
		t.Fatalf("the challenge is %+v", c)
	}
	drep := func(from netip.AddrPort, tid uint64, id uint32) {
		d := [mad.Len]byte(craft(mad.AttrDREP, &mad.DREP{LocalID: q.LocalID, RemoteID: id}))
		h := mad.NewHeader(mad.AttrDREP, tid)
		h.Put(&d)
		b.m.Receive(w.now, back(from, 0), d[:])
		w.work()
	}
	drep(netip.MustParseAddrPort("192.0.2.78:4791"), h.TID, c.LocalID)
	drep(peer, h.TID+1, c.LocalID)
	drep(peer, h.TID, c.LocalID^1<<20)
	drep(peer, 0, c.LocalID+1)
	if len(b.events) != 0 {
		t.Fatalf("b heard %q", b.kinds())
	}
	drep(peer, h.TID, c.LocalID)
	b.one(EventReqReceived)
	drep(peer, h.TID, c.LocalID) // a duplicate
	b.one(EventReqReceived)
}

// A REQ may name very long times. The connection must still be gone after some seconds.
func TestPeerCannotMakeTheReplyWaitForLong(t *testing.T) {
	w, a, b, _ := pair(t)
	a.dead = true
	b.accept()
	q := asks(a, b)
	q.LocalResponseTimeout, q.MaxCMRetries, q.Primary.AckTimeout = 31, 15, 31
	b.m.Receive(w.now, back(a.addr, 0), craft(mad.AttrREQ, &q))
	w.pass(confirmTime + time.Millisecond)
	b.one(EventRepTimeout).Conn.Destroy(w.now)
	if n := b.sent[mad.AttrREP]; n != int(confirmTime/confirmWait) {
		t.Errorf("the REP was sent %d times", n)
	}
	w.settle(shortTimewait + time.Millisecond)
	b.empty()
	// A peer that did not confirm causes later requests to be challenged.
	q.LocalID++
	b.m.Receive(w.now, back(a.addr, 0), craft(mad.AttrREQ, &q))
	if b.refusals(reason.CMChallenge) != 1 {
		t.Errorf("refused %v", b.refused)
	}
}

// Answers to messages of unknown connections are rate limited. Answers to challenges of this side's
// own request are not.
func TestAnswersToUnknownPeersAreRateLimited(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	c := a.connect(b)
	for i := range 10 * answerBurst {
		a.m.Receive(w.now, back(netip.MustParseAddrPort("203.0.113.9:4791"), 0), craft(mad.AttrDREQ, &mad.DREQ{LocalID: uint32(i + 1), RemoteID: 5}))
	}
	w.work()
	if a.sent[mad.AttrDREP] != answerBurst || a.refusals(reason.CMAnswerRate) != 9*answerBurst {
		t.Errorf("%d answers, %d left out", a.sent[mad.AttrDREP], a.refusals(reason.CMAnswerRate))
	}
	a.m.Receive(w.now, back(b.addr, 0), craft(mad.AttrDREQ, &mad.DREQ{LocalID: 9, RemoteID: c.LocalID()}))
	w.work()
	d := a.last[mad.AttrDREP]
	var p mad.DREP
	if p.Parse(&d); p.LocalID != c.LocalID() || p.RemoteID != 9 {
		t.Errorf("the answer to the challenge is %+v", p)
	}
	w.state(c, ReqSent)
}

// The first repetition does not wait for the usual response timeout of four seconds.
func TestRequestIsRepeatedSoon(t *testing.T) {
	w, a, b, _ := pair(t)
	a.accept()
	b.accept()
	w.loseFirst(mad.AttrREQ, 2)
	p := a.quick(b)
	p.RemoteResponseTimeout = 0
	c, err := a.m.Connect(w.now, p)
	w.must(err)
	w.pass(earlyWait + 10*time.Millisecond)
	if a.sent[mad.AttrREQ] != 2 {
		t.Errorf("%d REQs", a.sent[mad.AttrREQ])
	}
	w.pass(2 * earlyWait)
	w.state(c, Established)
	if a.sent[mad.AttrREQ] != 3 {
		t.Errorf("%d REQs", a.sent[mad.AttrREQ])
	}
}
