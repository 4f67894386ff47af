package iwarp

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A wrong response fails the request that it belongs to.
func TestWrongAnswerFailsItsRequest(t *testing.T) {
	answer := func(n int, change func(s *iwarp.Segment, r *raw)) func(r *raw) []byte {
		return func(r *raw) []byte {
			s := iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.ReadResponse, STag: r.region.Key, TO: r.region.Base + 100}
			change(&s, r)
			return r.fpdu(s, make([]byte, n))
		}
	}
	value := func(change func(s *iwarp.Segment, m *iwarp.AtomicValue)) func(r *raw) []byte {
		return func(r *raw) []byte {
			s := iwarp.Segment{Last: true, Opcode: iwarp.AtomicResponse, Queue: iwarp.QueueAtomicResponse, MSN: 1}
			m := iwarp.AtomicValue{ID: 1}
			change(&s, &m)
			b := make([]byte, iwarp.AtomicValueLen)
			m.Put(b)
			return r.fpdu(s, b)
		}
	}
	for name, c := range map[string]struct {
		op     queue.Op
		send   func(r *raw) []byte
		term   iwarp.Term
		status queue.Status
		want   reason.Reason
	}{
		"STag":         {queue.Read, answer(50, func(s *iwarp.Segment, r *raw) { s.STag++ }), iwarp.TermTaggedSTag, queue.BadRespErr, reason.RDMAPResponse},
		"offset":       {queue.Read, answer(50, func(s *iwarp.Segment, r *raw) { s.TO++ }), iwarp.TermTaggedBounds, queue.BadRespErr, reason.RDMAPResponse},
		"too long":     {queue.Read, answer(51, func(s *iwarp.Segment, r *raw) {}), iwarp.TermTaggedBounds, queue.LocLenErr, reason.ResponseLength},
		"too short":    {queue.Read, answer(49, func(s *iwarp.Segment, r *raw) {}), iwarp.TermTaggedBounds, queue.LocLenErr, reason.ResponseLength},
		"more to come": {queue.Read, answer(51, func(s *iwarp.Segment, r *raw) { s.Last = false }), iwarp.TermTaggedBounds, queue.LocLenErr, reason.ResponseLength},
		"memory gone": {queue.Read, answer(50, func(s *iwarp.Segment, r *raw) {
			if err := r.Memory.Deregister(r.region); err != nil {
				r.tb.Fatal(err)
			}
		}), iwarp.TermDDPLocal, queue.LocProtErr, reason.LocalKey},
		"queue":  {queue.FetchAdd, value(func(s *iwarp.Segment, m *iwarp.AtomicValue) { s.Queue = 1 }), iwarp.TermUntaggedQueue, queue.BadRespErr, reason.DDPQueue},
		"number": {queue.FetchAdd, value(func(s *iwarp.Segment, m *iwarp.AtomicValue) { s.MSN = 2 }), iwarp.TermUntaggedMSN, queue.BadRespErr, reason.DDPSequence},
		"ID":     {queue.FetchAdd, value(func(s *iwarp.Segment, m *iwarp.AtomicValue) { m.ID = 2 }), iwarp.TermUntaggedMO, queue.BadRespErr, reason.RDMAPResponse},
	} {
		for _, maxPiece := range []int{1, 1 << 20} {
			r := newRaw(t, defaults(), nil)
			r.maxPiece = maxPiece
			n := 50
			if c.op == queue.FetchAdd {
				n = 8
			}
			r.post(queue.Send, 0, 5, queue.RDMA{})
			r.post(c.op, 100, n, queue.RDMA{})
			r.post(queue.Read, 200, 50, queue.RDMA{})
			r.drain()
			r.receive(c.send(r))
			m, ok := r.termination(true)
			if !ok || m.Term != c.term {
				t.Errorf("%s: sent %+v, expected %v; refused %v", name, m, c.term, r.Refused)
			}
			l := r.Sent.List
			if len(l) != 3 || l[0].Status != queue.Success || l[1].Status != c.status || l[1].Reason != c.want || l[2].Status != queue.WRFlushErr || l[2].Expected != uint64(c.want) {
				t.Errorf("%s: %+v", name, l)
			}
			if len(r.Events) > 0 || r.Attr.State != qp.Err {
				t.Errorf("%s: in %v, events %v", name, r.Attr.State, r.Events)
			}
			ended(t, r)
		}
	}
}

// terminateFPDU makes a Terminate from the peer.
func (r *raw) terminateFPDU(x iwarp.Term, header []byte) []byte {
	b := make([]byte, iwarp.MaxTerminate)
	n := iwarp.PutTermination(b, x, header)
	return r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Terminate, Queue: iwarp.QueueTerminate, MSN: 1}, b[:n])
}

// A Terminate fails the request that it names, with the status that a NAK for the same error causes
// on InfiniBand.
func TestTerminateFailsTheNamedREAD(t *testing.T) {
	for _, x := range iwarp.Terms() {
		r := newRaw(t, defaults(), nil)
		for i := range 3 {
			r.post(queue.Read, 10*i, 10, queue.RDMA{Addr: 0x1000, RKey: 0x77})
		}
		list := fpdus(t, r.drain(), true)
		if len(list) != 3 {
			t.Fatalf("%d FPDUs sent", len(list))
		}
		r.receive(r.terminateFPDU(x, list[1]))
		if x == iwarp.TermMPAIRD || x == iwarp.TermMPARTR {
			x = x.Swapped() // set-up errors would be checked first
		}
		want, why := terminateStatus(x)
		l := r.Sent.List
		if len(l) != 3 || l[0].Status != queue.WRFlushErr || l[1].Status != want || l[1].Reason != why || l[1].Expected != 2 || l[1].Found != uint64(x) || l[2].Status != queue.WRFlushErr {
			t.Errorf("%v: %+v", x, l)
		}
		switch {
		case x.Layer() == iwarp.LayerRDMAP && x.Type() == 1, x.Layer() == iwarp.LayerDDP && x.Type() == 1 && x != iwarp.TermTaggedVersion:
			if want != queue.RemAccessErr || why != reason.TermProtection {
				t.Errorf("%v gives %v", x, want)
			}
		case x.Type() == 0 && want != queue.RemOpErr, x.Layer() == iwarp.LayerDDP && x.Type() == 2 && want != queue.RemInvReqErr:
			t.Errorf("%v gives %v", x, want)
		}
		if e := r.last(); e.Kind != Closed || e.Term != x || e.Detail.Reason != why {
			t.Errorf("%v: heard %+v", x, e)
		}
		// A Terminate is not answered: the connection closes.
		if b := r.drain(); len(b) > 0 || r.s.Shut() != ShutClose || r.Attr.State != qp.Err || len(r.Events) > 0 {
			t.Errorf("%v: sent % x, shut %d, in %v, events %v", x, b, r.s.Shut(), r.Attr.State, r.Events)
		}
	}
}

// RFC 5040 4.8: the READ that a Terminate names may have been answered partially.
func TestTerminateNamesTheRestOfAREAD(t *testing.T) {
	for _, c := range []struct {
		answered uint32
		size     uint32 // length in the Terminate
		failed   int
	}{{0, 1000, 1}, {600, 400, 1}, {1000, 0, 1}, {600, 401, -1}, {1001, 0, -1}} {
		r := newRaw(t, defaults(), nil)
		for i := range 3 {
			r.post(queue.Read, 1000*i, 1000, queue.RDMA{Addr: 0x1000, RKey: 0x77})
		}
		b := fpdus(t, r.drain(), true)[1]
		var m iwarp.Read
		m.Parse(b[iwarp.UntaggedLen:])
		m.SinkTO, m.SourceTO, m.Size = m.SinkTO+uint64(c.answered), m.SourceTO+uint64(c.answered), c.size
		m.Put(b[iwarp.UntaggedLen:])
		r.receive(r.terminateFPDU(iwarp.TermProtectionSTag, b))
		for i, x := range r.Sent.List {
			want := queue.WRFlushErr
			if i == c.failed {
				want = queue.RemAccessErr
			}
			if x.Status != want {
				t.Errorf("%d bytes answered, %d left: %s", c.answered, c.size, brief(r.Sent.List))
			}
		}
	}
}

// Linux's siw swaps layer and type, puts the flags elsewhere, and writes the length of the READ in
// place of its message number.
func TestTerminateOfLinuxSiwFailsItsREAD(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	for i := range 3 {
		r.post(queue.Read, 10*i, 10, queue.RDMA{Addr: 0x1000, RKey: 0x77})
	}
	list := fpdus(t, r.drain(), true)
	b := append([]byte{0x10, 0x02, 0x07, 0}, list[1][:iwarp.UntaggedLen+iwarp.ReadLen]...)
	b[4+15] = 10 // the message number
	r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Terminate, Queue: 2, MSN: 1}, b))
	l := r.Sent.List
	if len(l) != 3 || l[1].Status != queue.RemAccessErr || r.last().Term != iwarp.TermProtectionAccess {
		t.Errorf("%s, heard %+v", brief(l), r.last())
	}
}

func TestTerminateOfTheSetupComesFirst(t *testing.T) {
	for _, x := range []iwarp.Term{iwarp.TermMPAIRD, iwarp.TermMPARTR} {
		for _, b := range [][]byte{{byte(x >> 8), byte(x), 0, 0}, {byte(x.Swapped() >> 8), byte(x), 0, 0}} {
			r := newSetup(t, nil)
			r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced, Revision: 2}, &iwarp.Enhanced{PeerToPeer: true, RTR: iwarp.RTRRead}, nil))
			if err := r.s.Accept(0, r.q, defaults()); err != nil {
				t.Fatal(err)
			}
			r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Terminate, Queue: 2, MSN: 1}, b))
			if e := r.last(); e.Kind != Closed || e.Term != x || e.Detail.Reason != reason.TermStream {
				t.Errorf("% x: heard %+v", b, r.events)
			}
		}
	}
}

func TestTerminateOfCompletedRequestIsAnEvent(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	r.post(queue.Write, 0, 10, queue.RDMA{Addr: 0x1000, RKey: 0x77})
	list := fpdus(t, r.drain(), true)
	if len(r.Sent.List) != 1 || r.Sent.List[0].Status != queue.Success {
		t.Fatalf("%+v", r.Sent.List)
	}
	r.receive(r.terminateFPDU(iwarp.TermTaggedBounds, list[0]))
	if len(r.Events) != 1 || r.Events[0] != machine.EventQPFatal || r.Refused[0].Reason != reason.TermProtection {
		t.Errorf("events %v, refused %v", r.Events, r.Refused)
	}
}

// A long WRITE or SEND that is refused while it is sent fails.
func TestTerminateFailsTheMessageBeingSent(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Send} {
		r := newRaw(t, &Params{IRD: 4, ORD: 4, MaxFPDU: 1452}, nil)
		r.post(op, 0, 100000, queue.RDMA{Addr: 0x1000, RKey: 0x77})
		r.s.Next(0, &r.out)
		var b []byte
		for _, p := range r.out.Pieces {
			b = append(b, p...)
		}
		r.s.Sent(0, 3000, 0)
		r.receive(r.terminateFPDU(iwarp.TermTaggedBounds, fpdus(t, b[:1452], true)[0]))
		if l := r.Sent.List; len(l) != 1 || l[0].Status != queue.RemAccessErr || l[0].Reason != reason.TermProtection {
			t.Errorf("operation %d: %+v", op, l)
		}
	}
}

func TestTruncatedTerminateIsReadPartially(t *testing.T) {
	for _, header := range []int{0, 2, 10, 18} {
		r := newRaw(t, defaults(), nil)
		b := make([]byte, 4+header)
		b[0], b[1], b[2] = 0x01, 0x02, 0xe0
		r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Terminate, Queue: 2, MSN: 1}, b))
		if len(r.Refused) != 1 || r.Refused[0].Reason != reason.TermProtection || r.last().Term != iwarp.TermProtectionAccess {
			t.Errorf("%d bytes of header: refused %v", header, r.Refused)
		}
	}
	r := newRaw(t, defaults(), nil)
	r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Terminate, Queue: 2, MSN: 1}, make([]byte, 60)))
	if m, ok := r.termination(true); !ok || m.Term != iwarp.TermUntaggedLength {
		t.Errorf("sent %+v", m)
	}
}
