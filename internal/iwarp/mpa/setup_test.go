package mpa

import (
	"bytes"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// exchange runs a set-up between two ends, with the frames in pieces of n bytes.
func exchange(t *testing.T, ask, answer *Params, n int) (initiator Reply, responder Agreement, refused reason.Detail) {
	t.Helper()
	var a, b Setup
	deliver := func(s *Setup, frame []byte, reply bool) (private []byte) {
		t.Helper()
		for len(frame) > 0 {
			k := min(n, len(frame))
			rest, p, complete, d := s.Collect(frame[:k], reply)
			if d.Reason != reason.None || len(rest) != 0 || complete != (k == len(frame)) {
				t.Fatalf("%d bytes left, complete %v, %v", len(rest), complete, d)
			}
			private, frame = p, frame[k:]
		}
		return private
	}
	frame, d := a.Request(ask)
	if d.Reason != reason.None {
		t.Fatal(d)
	}
	if p := deliver(&b, frame, false); !bytes.Equal(p, ask.Private) {
		t.Fatalf("private data %q", p)
	}
	b.Requested()
	frame, responder, refused = b.Accept(answer)
	if refused.Reason != reason.None {
		return Reply{}, responder, refused
	}
	if p := deliver(&a, frame, true); !bytes.Equal(p, answer.Private) {
		t.Fatalf("private data %q", p)
	}
	if !a.Initiator() || b.Initiator() {
		t.Fatal("the ends do not know their sides")
	}
	return a.Reply(), responder, reason.Detail{}
}

func TestEndsAgree(t *testing.T) {
	for _, c := range []struct {
		name         string
		ask, answer  Params
		want, theirs Agreement // of the initiator and of the responder
	}{
		{
			name: "depths cross (RFC 6581 9.1)", ask: Params{IRD: 2, ORD: 9}, answer: Params{IRD: 4, ORD: 8},
			want:   Agreement{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 2, ORD: 4, Extensions: true, Large: true},
			theirs: Agreement{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 4, ORD: 2, Extensions: true, Large: true},
		},
		{
			name: "CRC if either asks (RFC 5044 7.1.1)", ask: Params{NoCRC: true, ClientServer: true, Extensions: ExtensionsOff}, answer: Params{Private: []byte("reply")},
			want:   Agreement{Revision: 2, CRC: true, Large: true},
			theirs: Agreement{Revision: 2, CRC: true, Large: true},
		},
		{
			name: "no CRC, markers one way", ask: Params{NoCRC: true, Markers: true, ClientServer: true, Extensions: ExtensionsOff, Private: []byte("request")}, answer: Params{NoCRC: true},
			want:   Agreement{Revision: 2, ReceiveMarkers: true, Large: true},
			theirs: Agreement{Revision: 2, SendMarkers: true, Large: true},
		},
		{
			name: "a READ begins the connection", ask: Params{RTR: iwarp.RTRRead}, answer: Params{Extensions: ExtensionsOff},
			want:   Agreement{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRRead, ORD: 1, Large: true},
			theirs: Agreement{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRRead, IRD: 1, Large: true},
		},
	} {
		for _, n := range []int{1, 7, 1000} {
			got, theirs, refused := exchange(t, &c.ask, &c.answer, n)
			if refused.Reason != reason.None || got.Outcome != Agreed || got.Agreement != c.want || theirs != c.theirs {
				t.Errorf("%s: %v, outcome %d\n initiator %+v\n responder %+v", c.name, refused, got.Outcome, got.Agreement, theirs)
			}
		}
	}
}

func TestResponderWithoutACommonFrameRefuses(t *testing.T) {
	_, _, d := exchange(t, &Params{RTR: iwarp.RTRSend}, &Params{RTR: iwarp.RTRRead}, 1000)
	if d.Reason != reason.MPAReady {
		t.Errorf("refused for %v", d)
	}
}

func TestParametersAreChecked(t *testing.T) {
	for _, p := range []Params{{IRD: MaxDepth + 1}, {Revision: 3}, {Private: make([]byte, iwarp.MaxPrivate-iwarp.EnhancedLen+1)}} {
		var s Setup
		if frame, d := s.Request(&p); d.Reason == reason.None {
			t.Errorf("%+v made a frame of %d bytes", p, len(frame))
		}
	}
}
