package verbs_test

import (
	"strings"
	"testing"

	"softrdma/verbs"
)

// A program may ask for the endpoint repeatedly: one copy goes to the peer, another to
// Connect.
func TestEndpointStaysUntilReset(t *testing.T) {
	a, b := newSide(t, addrA, 64, verbs.RC), newSide(t, addrB, 64, verbs.RC)
	first := a.qp.Endpoint()
	if again := a.qp.Endpoint(); again != first {
		t.Errorf("in RESET: %+v, then %+v", first, again)
	}
	if err := a.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	if again := a.qp.Endpoint(); again != first {
		t.Errorf("in INIT: %+v, expected %+v", again, first)
	}
	for _, connect := range []error{
		a.qp.Connect(a.qp.Endpoint(), b.qp.Endpoint(), verbs.ConnectConfig{}),
		b.qp.Connect(b.qp.Endpoint(), a.qp.Endpoint(), verbs.ConnectConfig{}),
	} {
		if connect != nil {
			t.Fatal(connect)
		}
	}
	if again := a.qp.Endpoint(); again != first {
		t.Errorf("in RTS: %+v, expected %+v", again, first)
	}
	a.post(t, verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if wc := a.one(t); wc.Err() != nil {
		t.Error(wc.Err())
	}

	if err := a.qp.ToReset(); err != nil {
		t.Fatal(err)
	}
	// One of 2^24 draws may repeat; three in a row do not.
	psn := first.PSN
	for range 3 {
		if psn = a.qp.Endpoint().PSN; psn != first.PSN {
			break
		}
		if err := a.qp.ToReset(); err != nil {
			t.Fatal(err)
		}
	}
	if psn == first.PSN {
		t.Errorf("after RESET the first PSN is still %#06x", psn)
	}
}

// If a program moves the queue pair itself, it chooses the PSN, and the endpoint contains it.
func TestEndpointHasThePSNOfToRTS(t *testing.T) {
	s := newSide(t, addrA, 64, verbs.UD)
	for _, err := range []error{s.qp.ToInit(verbs.InitAttr{QKey: 1}), s.qp.ToRTR(verbs.RTRAttr{}), s.qp.ToRTS(verbs.RTSAttr{SQPSN: 0x123456})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if psn := s.qp.Endpoint().PSN; psn != 0x123456 {
		t.Errorf("PSN %#06x, expected 0x123456 of ToRTS", psn)
	}
}

// A request in the wrong state is refused with the names of the states and the call that leads
// to the right one.
func TestPostInTheWrongStateNamesTheCall(t *testing.T) {
	s := newSide(t, addrA, 64, verbs.RC)
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}
	post := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("expected an error with %q, found %v", w, err)
			}
		}
	}
	post(s.qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(0, 8)}}), "expected INIT, found RESET", "ToInit")
	post(s.qp.PostSend(send), "expected RTS, found RESET", "Connect")
	post(s.qp.ToRTS(verbs.RTSAttr{}), "from RESET to RTS", "call ToInit")
	post(s.qp.ToRTR(verbs.RTRAttr{}), "from RESET to RTR", "call ToInit")
	if err := s.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	post(s.qp.PostSend(send), "expected RTS, found INIT", "Connect")
	post(s.qp.ToRTS(verbs.RTSAttr{}), "from INIT to RTS", "call ToRTR")
	if err := s.qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(0, 8)}}); err != nil {
		t.Errorf("receive in INIT: %v", err)
	}
	post(s.qp.PostSend(verbs.SendWR{Op: 99}), "RTS")
}
