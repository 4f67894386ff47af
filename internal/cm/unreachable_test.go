package cm

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

var nobody = reason.Detail{Reason: reason.SendRefused, Expected: 280, Found: 111}

// slow is a request whose answer is waited for as Linux waits: 16 times 4.3 s.
func slow(a, b *host) *Conn {
	c, err := a.m.Connect(a.w.now, &ConnectParams{Service: service, Path: qp.Path{Dst: b.addr}, QPN: 0x11})
	a.w.must(err)
	a.w.work()
	return c
}

// TestRequestToNobodyEndsSoon: the network quotes the request.
func TestRequestToNobodyEndsSoon(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	c := slow(a, b)
	q := a.last[mad.AttrREQ]
	w.pass(5 * time.Millisecond)
	if !a.m.Unreachable(w.now, b.addr, q[:100], nobody) {
		t.Fatal("the request was not known")
	}
	a.m.Unreachable(w.now, b.addr, q[:100], nobody) // once more does nothing
	w.pass(time.Second)
	if e := a.one(EventReqTimeout); e.Detail != nobody || e.at > 700*time.Millisecond {
		t.Errorf("gave up after %v: %v", e.at, e.Detail)
	}
	if n := a.sent[mad.AttrREQ]; n != 1+hintRetries {
		t.Errorf("the request was sent %d times", n)
	}
	c.Destroy(w.now)
	a.empty()
}

// TestLookupAtNobodyEndsSoon is the same for datagrams.
func TestLookupAtNobodyEndsSoon(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	_, err := a.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: b.addr}})
	w.must(err)
	w.work()
	q := a.last[mad.AttrSIDRReq]
	if !a.m.Unreachable(w.now, b.addr, q[:], nobody) {
		t.Fatal("the question was not known")
	}
	w.pass(time.Second)
	if e := a.one(EventSidrTimeout); e.Detail != nobody || e.at > 700*time.Millisecond {
		t.Errorf("gave up after %v: %v", e.at, e.Detail)
	}
	a.empty()
}

// TestForgedUnreachableChangesNothing: what does not quote the message that waits, or
// comes of another destination, is not believed.
func TestForgedUnreachableChangesNothing(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	c := slow(a, b)
	q := a.last[mad.AttrREQ]
	other := q
	other[mad.HeaderLen-5] ^= 1 // in the header, which the transaction ID is in
	for name, f := range map[string]func() bool{
		"another message":     func() bool { return a.m.Unreachable(w.now, b.addr, other[:], nobody) },
		"too short":           func() bool { return a.m.Unreachable(w.now, b.addr, q[:quotedLen-1], nobody) },
		"nothing":             func() bool { return a.m.Unreachable(w.now, b.addr, nil, nobody) },
		"another destination": func() bool { return a.m.Unreachable(w.now, netip.MustParseAddrPort("10.9.9.9:4791"), q[:], nobody) },
	} {
		if f() {
			t.Errorf("%s was believed", name)
		}
	}
	w.pass(time.Second)
	w.state(c, ReqSent)
	c.Destroy(w.now)
}

// TestPeerThatAnswersOutlivesUnreachable: a forged hint that quotes the request
// rightly costs a few repetitions, because the peer answers them.
func TestPeerThatAnswersOutlivesUnreachable(t *testing.T) {
	w, a, b, _ := pair(t)
	w.delay = func() time.Duration { return 150 * time.Millisecond }
	ca := slow(a, b)
	q := a.last[mad.AttrREQ]
	a.m.Unreachable(w.now, b.addr, q[:], nobody)
	w.pass(160 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	w.must(cb.Delay(w.now, DefaultMRATimeout|DelayOnDuplicate, nil)) // the program takes its time
	w.pass(20 * time.Second)
	w.state(ca, MRAReqReceived)
	w.must(cb.Accept(w.now, &accepting))
	w.pass(time.Second)
	a.one(EventRepReceived)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
}
