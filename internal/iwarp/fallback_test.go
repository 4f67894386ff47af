package iwarp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// If a responder answers a request of revision 2 with revision 1, nothing of revision 2 is agreed
// on.
func TestReplyOfRevision1IsTaken(t *testing.T) {
	for name, p := range map[string]*Params{"peer to peer": {IRD: 4, ORD: 3}, "client and server": {IRD: 4, ORD: 3, ClientServer: true}} {
		t.Run(name, func(t *testing.T) {
			r := newInitiator(t, p)
			r.maxPiece = 7
			r.drain()
			r.receive(frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagCRC, Revision: 1}, nil, []byte("hello")))
			e := r.last()
			want := Agreement{Revision: 1, CRC: true, IRD: 4, ORD: 3}
			if e.Kind != Established || e.Agreement != want || string(e.Private) != "hello" || r.Attr.State != qp.RTS {
				t.Fatalf("heard %+v in %v, expected %+v", r.events, r.Attr.State, want)
			}
			if len(r.Refused) != 1 || r.Refused[0] != (reason.Detail{Reason: reason.MPAFallback, Expected: 2, Found: 1}) {
				t.Errorf("refused %v, expected a connection with revision 1", r.Refused)
			}
			// RFC 5044 7.1.2: the first FPDU is the initiator's.
			if list := segments(t, r); len(list) != 1 || !isNudge(list[0]) {
				t.Errorf("sent %+v, expected a WRITE of no bytes", list)
			}
		})
	}
}

// A program that requires revision 2 does not get another revision.
func TestReplyOfAnotherRevisionIsRefused(t *testing.T) {
	for _, c := range []struct{ asks, gets uint8 }{{2, 1}, {1, 2}} {
		t.Run(fmt.Sprint(c.asks), func(t *testing.T) {
			r := newInitiator(t, &Params{Revision: c.asks, IRD: 4, ORD: 4})
			r.drain()
			r.receive(frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagCRC, Revision: c.gets}, nil, nil))
			if e := r.last(); e.Kind != Refused || e.Detail != (reason.Detail{Reason: reason.MPARevision, Expected: uint64(c.asks), Found: uint64(c.gets)}) || e.Unanswered {
				t.Fatalf("heard %+v", r.events)
			}
			if m, ok := r.termination(true); !ok || m.Term != iwarp.TermMPAFrame {
				t.Errorf("sent %+v", m)
			}
		})
	}
}

// The peer's program rejected the connection, so the request is not repeated.
func TestRejectionWithRevision1IsFinal(t *testing.T) {
	r := newInitiator(t, defaults())
	r.drain()
	r.receive(frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagRejected, Revision: 1}, nil, []byte("no")))
	if e := r.last(); e.Kind != Rejected || string(e.Private) != "no" || e.Unanswered {
		t.Fatalf("heard %+v", r.events)
	}
}

// A peer that closes the connection after a request may know only revision 1. That is not assumed
// if it has begun to answer, if the link reports a reason, or if the program requires a revision.
func TestUnansweredRequestIsReported(t *testing.T) {
	broken := reason.Detail{Reason: reason.TLSLost}
	for name, c := range map[string]struct {
		params Params
		unsent bool
		reply  string
		end    func(r *raw)
		want   bool
	}{
		"end":        {end: func(r *raw) { r.s.Closed(0, false) }, want: true},
		"reset":      {end: func(r *raw) { r.s.Closed(0, true) }, want: true},
		"not asked":  {unsent: true, end: func(r *raw) { r.s.Closed(0, true) }},
		"some bytes": {reply: "MPA ID Rep", end: func(r *raw) { r.s.Closed(0, true) }},
		"TLS":        {reply: "\x15\x03\x03\x00", end: func(r *raw) { r.s.Closed(0, false) }},
		"link":       {end: func(r *raw) { r.s.Failed(0, broken) }},
		"timeout":    {end: func(r *raw) { r.s.Expire(replyTimeout) }},
		"revision 2": {params: Params{Revision: 2}, end: func(r *raw) { r.s.Closed(0, true) }},
		"revision 1": {params: Params{Revision: 1}, end: func(r *raw) { r.s.Closed(0, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newInitiator(t, &c.params)
			if !c.unsent {
				r.drain()
			}
			r.receive([]byte(c.reply))
			c.end(r)
			if e := r.last(); e.Kind != Refused || len(r.events) != 1 || e.Unanswered != c.want {
				t.Fatalf("events %+v, expected one of an unanswered request: %t", r.events, c.want)
			}
			if r.Attr.State != qp.Init || r.q.Stream() != nil || r.s.Deadline() != machine.Never {
				t.Error("the queue pair is not free")
			}
		})
	}
}

// A peer that ignores the revision treats the request as one of revision 1. Messages then work in
// both directions.
func TestFallbackSeeds(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPair(t, nil)
			p.rnd = rand.New(rand.NewPCG(seed, 78))
			p.maxPiece = []int{1, 3, 50, 1000, 9000}[p.rnd.IntN(5)]
			var sent int
			p.tamper = func(to int, b []byte) {
				if to != 1 {
					return
				}
				for i := range b {
					switch sent + i {
					case 16:
						b[i] &^= byte(iwarp.FlagEnhanced)
					case 17:
						b[i] = iwarp.Revision1
					}
				}
				sent += len(b)
			}
			params := [2]*Params{}
			for i := range params {
				params[i] = &Params{
					NoCRC: p.rnd.IntN(2) == 0, Markers: p.rnd.IntN(3) == 0, ClientServer: p.rnd.IntN(2) == 0, IRD: 3, ORD: 3,
					Extensions: Extensions(p.rnd.IntN(2)),
				}
			}
			p.connect(params[0], params[1])
			for i, n := range p.n {
				if n.q.a.Revision != 1 || n.q.a.PeerToPeer || n.q.a.ORD != 3 {
					t.Errorf("end %d agreed on %+v", i, n.q.a)
				}
			}
			for i, n := range p.n {
				to := p.n[1-i]
				for k := range to.mem[:8] {
					to.mem[k] = byte(0x10*i + k)
				}
				to.PostRecv(7, to.sge(1000, 5000))
				n.post(queue.Read, 9000, 8, to.target(0))
				n.post(queue.Send, 200, 3000, queue.RDMA{})
				n.post(queue.Write, 300, 4000, to.target(20000))
			}
			p.run()
			for i, n := range p.n {
				if got := brief(n.Sent.List); got != "0:IBV_WC_SUCCESS 1:IBV_WC_SUCCESS 2:IBV_WC_SUCCESS " {
					t.Errorf("end %d: %s, refused %v", i, got, n.Refused)
				}
				if len(n.Received.List) != 1 || n.Received.List[0].Status != queue.Success || n.Received.List[0].ByteLen != 3000 {
					t.Errorf("end %d received %+v", i, n.Received.List)
				}
				if got, want := binary.BigEndian.Uint64(n.mem[9000:]), binary.BigEndian.Uint64(p.n[1-i].mem); got != want {
					t.Errorf("end %d read %#x, expected %#x", i, got, want)
				}
			}
		})
	}
}
