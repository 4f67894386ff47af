package cm

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

var refused = reason.Detail{Reason: reason.SendRefused, Expected: 280, Found: 111}

// slow returns a request with Linux's timeouts: 16 times 4.3 s.
func slow(a, b *host) *Conn {
	c, err := a.m.Connect(a.w.now, &ConnectParams{Service: service, Path: qp.Path{Dst: b.addr}, QPN: 0x11})
	a.w.must(err)
	a.w.work()
	return c
}

// The ICMP message quotes the request.
func TestRequestToMissingPeerEndsSoon(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	c := slow(a, b)
	q := a.last[mad.AttrREQ]
	w.pass(5 * time.Millisecond)
	if !a.m.Unreachable(w.now, b.addr, q[:100], refused) {
		t.Fatal("the request was not known")
	}
	a.m.Unreachable(w.now, b.addr, q[:100], refused) // a second one has no effect
	w.pass(time.Second)
	if e := a.one(EventReqTimeout); e.Detail != refused || e.at > 700*time.Millisecond {
		t.Errorf("gave up after %v: %v", e.at, e.Detail)
	}
	if n := a.sent[mad.AttrREQ]; n != 1+hintRetries {
		t.Errorf("the request was sent %d times", n)
	}
	c.Destroy(w.now)
	a.empty()
}

// This is the same test for datagram services.
func TestLookupAtMissingPeerEndsSoon(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	_, err := a.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: b.addr}})
	w.must(err)
	w.work()
	q := a.last[mad.AttrSIDRReq]
	if !a.m.Unreachable(w.now, b.addr, q[:], refused) {
		t.Fatal("the question was not known")
	}
	w.pass(time.Second)
	if e := a.one(EventSidrTimeout); e.Detail != refused || e.at > 700*time.Millisecond {
		t.Errorf("gave up after %v: %v", e.at, e.Detail)
	}
	a.empty()
}

// A message that does not quote the waiting request, or that names another destination, is ignored.
func TestForgedUnreachableChangesNothing(t *testing.T) {
	w, a, b, _ := pair(t)
	b.dead = true
	c := slow(a, b)
	q := a.last[mad.AttrREQ]
	other := q
	other[mad.HeaderLen-5] ^= 1 // the header holds the transaction ID
	for name, f := range map[string]func() bool{
		"another message":     func() bool { return a.m.Unreachable(w.now, b.addr, other[:], refused) },
		"too short":           func() bool { return a.m.Unreachable(w.now, b.addr, q[:quotedLen-1], refused) },
		"nothing":             func() bool { return a.m.Unreachable(w.now, b.addr, nil, refused) },
		"another destination": func() bool { return a.m.Unreachable(w.now, netip.MustParseAddrPort("10.9.9.9:4791"), q[:], refused) },
	} {
		if f() {
			t.Errorf("%s was believed", name)
		}
	}
	w.pass(time.Second)
	w.state(c, ReqSent)
	c.Destroy(w.now)
}

// A forged message that quotes the request correctly causes only a few repetitions, because the
// peer answers them.
func TestPeerThatAnswersOutlivesUnreachable(t *testing.T) {
	w, a, b, _ := pair(t)
	w.delay = func() time.Duration { return 150 * time.Millisecond }
	ca := slow(a, b)
	q := a.last[mad.AttrREQ]
	a.m.Unreachable(w.now, b.addr, q[:], refused)
	w.pass(160 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	w.must(cb.Delay(w.now, DefaultMRATimeout|DelayOnDuplicate, nil)) // the program delays its answer
	w.pass(20 * time.Second)
	w.state(ca, MRAReqReceived)
	w.must(cb.Accept(w.now, &accepting))
	w.pass(time.Second)
	a.one(EventRepReceived)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
}
