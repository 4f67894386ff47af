package iwarp

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// replied makes an initiator in full operation that has received a reply with the given flags.
func replied(t *testing.T, p *Params, flags iwarp.FrameFlags) *raw {
	t.Helper()
	r := newInitiator(t, p)
	r.drain()
	f := iwarp.Frame{Reply: true, Flags: iwarp.FlagCRC | flags, Revision: max(p.Revision, 1)}
	var e *iwarp.Enhanced
	if p.Revision != 1 {
		f.Revision, f.Flags = 2, f.Flags|iwarp.FlagEnhanced
		e = &iwarp.Enhanced{IRD: 4, ORD: 4}
		if !p.ClientServer {
			e.PeerToPeer, e.RTR = true, iwarp.RTRRead
		}
	}
	r.receive(frameBytes(f, e, nil))
	if r.last().Kind != Established {
		t.Fatalf("heard %+v, refused %v", r.events, r.Refused)
	}
	return r
}

// segments returns the segments that the end sends.
func segments(t *testing.T, r *raw) (list []iwarp.Segment) {
	t.Helper()
	for _, b := range fpdus(t, r.drain(), true) {
		var s iwarp.Segment
		s.Parse(b)
		list = append(list, s)
	}
	return list
}

// isNudge reports whether a segment is an empty WRITE.
func isNudge(s iwarp.Segment) bool {
	return s.Opcode == iwarp.Write && s.Last && s.Length == iwarp.TaggedLen-iwarp.LengthLen
}

// RFC 5044 7.1.2: the initiator sends the first FPDU, even if its program sends nothing.
func TestInitiatorSendsFirstFPDU(t *testing.T) {
	for name, p := range map[string]*Params{"client and server": {ClientServer: true, IRD: 4, ORD: 4}, "revision 1": {Revision: 1, IRD: 4, ORD: 4}} {
		r := replied(t, p, 0)
		r.post(queue.Send, 0, 10, queue.RDMA{})
		if list := segments(t, r); len(list) != 2 || !isNudge(list[0]) || list[1].Opcode != iwarp.Send {
			t.Errorf("%s: sent %+v, expected a WRITE of no bytes and a SEND", name, list)
		}
	}
}

// As a responder Linux's siw misses FPDUs that arrive while it changes from set-up to operation. It
// sees them only when more arrive.
func TestResponderIsNudged(t *testing.T) {
	for name, p := range map[string]*Params{"client and server": {ClientServer: true, IRD: 4, ORD: 4}, "peer to peer": {IRD: 4, ORD: 4}} {
		r := replied(t, p, 0)
		if list := segments(t, r); len(list) != 1 {
			t.Fatalf("%s: sent %+v at first", name, list)
		}
		n := 0
		for d := r.s.Deadline(); d != machine.Never; d = r.s.Deadline() {
			r.s.Expire(d - 1)
			if b := r.drain(); len(b) > 0 {
				t.Fatalf("%s: sent % x before the deadline", name, b)
			}
			r.s.Expire(d)
			if list := segments(t, r); len(list) != 1 || !isNudge(list[0]) {
				t.Fatalf("%s: sent %+v, expected a WRITE of no bytes", name, list)
			}
			if n++; n == 1 && d > 5*time.Millisecond {
				t.Errorf("%s: the first after %v", name, d)
			}
		}
		if n < 3 || n > 6 {
			t.Errorf("%s: nudged %d times", name, n)
		}
		if len(r.Refused) > 0 || r.last().Kind != Established {
			t.Errorf("%s: refused %v, heard %+v", name, r.Refused, r.last())
		}
	}
}

// A responder may send data first and still have missed the initiator's data.
func TestSendingResponderIsNudged(t *testing.T) {
	r := replied(t, &Params{ClientServer: true, IRD: 4, ORD: 4}, 0)
	r.drain()
	r.receive(r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write}, nil))
	if d := r.s.Deadline(); d != wakeupTimes[0] {
		t.Errorf("the deadline is %v, expected %v", d, wakeupTimes[0])
	}
}

func TestSoftrdmaIsNotNudged(t *testing.T) {
	r := replied(t, &Params{ClientServer: true, IRD: 4, ORD: 4}, iwarp.FlagExtTaken)
	r.drain()
	if d := r.s.Deadline(); d != machine.Never {
		t.Errorf("found the deadline %v", d)
	}
}

// RFC 5041 5.3: nothing may be sent between the segments of a message.
func TestNudgeWaitsForTheEndOfAMessage(t *testing.T) {
	r := replied(t, &Params{ClientServer: true, IRD: 4, ORD: 4, MaxFPDU: 256}, 0)
	r.drain()
	r.post(queue.Send, 0, 200<<10, queue.RDMA{})
	if !r.s.Next(r.now, &r.out) {
		t.Fatal("nothing to send")
	}
	b := join(r.out.Pieces)
	r.s.Sent(r.now, r.out.Len, 0)
	r.s.Expire(r.s.Deadline())
	list := fpdus(t, append(b, r.drain()...), true)
	var s iwarp.Segment
	for i := range list {
		if s.Parse(list[i]); isNudge(s) && i != len(list)-1 {
			t.Fatalf("FPDU %d of %d is the nudge", i, len(list))
		}
	}
	if !isNudge(s) {
		t.Errorf("the last of %d FPDUs is %+v", len(list), s)
	}
}

func join(pieces [][]byte) (b []byte) {
	for _, p := range pieces {
		b = append(b, p...)
	}
	return b
}

// A server may end a connection as soon as it has accepted it. Linux's siw treats an end that
// arrives before it has read the reply as a refusal.
func TestEndWaitsUntilTheReplyWasRead(t *testing.T) {
	for _, speaks := range []bool{false, true} {
		r := newSetup(t, nil)
		r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagCRC, Revision: 1}, nil, nil))
		if err := r.s.Accept(0, r.q, defaults()); err != nil {
			t.Fatal(err)
		}
		r.drain()
		if err := r.s.Disconnect(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if r.s.Shut() != ShutNothing || r.s.Deadline() != firstWait || r.last().Kind != Closed {
			t.Errorf("shut %d, deadline %v, heard %+v", r.s.Shut(), r.s.Deadline(), r.last())
		}
		if speaks {
			r.receive(seal([]byte{0, 0}))
		} else {
			r.s.Expire(firstWait)
		}
		if r.s.Shut() != ShutWrite {
			t.Errorf("peer speaks %v: shut %d", speaks, r.s.Shut())
		}
		r.s.Expire(r.s.Deadline())
		if !speaks && r.s.Shut() != ShutClose {
			t.Errorf("shut %d in the end", r.s.Shut())
		}
	}
}
