package uc

import (
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

type result struct {
	id     uint64
	status queue.Status
}

func results(c *machinetest.Completions) (r []result) {
	for _, e := range c.Take() {
		r = append(r, result{e.WRID, e.Status})
	}
	return r
}

func wantResults(t *testing.T, c *machinetest.Completions, want ...result) {
	t.Helper()
	if got := results(c); !slices.Equal(got, want) {
		t.Errorf("completions: found %v, want %v", got, want)
	}
}

func TestSendCompletesAfterPacketLeft(t *testing.T) {
	for name, left := range map[string]func(*QP){
		"Sent":   func(q *QP) { q.Sent() },
		"Next":   func(q *QP) { q.Next(0, &machine.Out{}) },
		"Expire": func(q *QP) { q.Expire(0) },
	} {
		a, _ := pair(t)
		a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 300))
		if n := len(machinetest.Drain(a.m, 0)); n != 2 {
			t.Fatalf("%d packets", n)
		}
		// Next has returned false, and the caller transmits.
		if l := a.Sent.Take(); len(l) != 0 || a.SQ.Len() != 1 {
			t.Errorf("%s: completed before the packets left: %v", name, l)
		}
		if a.m.Deadline() != 0 {
			t.Errorf("%s: no deadline while a completion waits", name)
		}
		left(a.m)
		wantResults(t, &a.Sent, result{1, queue.Success})
		if a.SQ.Len() != 0 || a.m.Deadline() != machine.Never {
			t.Errorf("%s: %d requests held, deadline %v", name, a.SQ.Len(), a.m.Deadline())
		}
	}
}

func TestSendIsNotCompleteWithinItsBatch(t *testing.T) {
	a, _ := pair(t)
	for i := range 10 {
		a.PostSend(op(queue.Send, uint64(i)), machinetest.SGE(a.src, 0, 10))
	}
	for range 10 {
		machinetest.Drain(a.m, 1)
		if l := a.Sent.Take(); len(l) != 0 {
			t.Fatalf("completed before the batch ended: %v", l)
		}
	}
	a.m.Sent()
	if l := a.Sent.Take(); len(l) != 10 || l[9].WRID != 9 {
		t.Errorf("found %v", l)
	}
}

func TestUnsignaledSendCompletesSilently(t *testing.T) {
	a, _ := pair(t)
	quiet := func(w *queue.SendWQE) { w.Op, w.Flags = queue.Send, 0 }
	a.PostSend(quiet, machinetest.SGE(a.src, 0, 10))
	machinetest.Drain(a.m, 0)
	a.m.Sent()
	wantResults(t, &a.Sent)
	if a.SQ.Len() != 0 {
		t.Error("the request is still held")
	}
	a.SQSigAll = true
	a.PostSend(quiet, machinetest.SGE(a.src, 0, 10))
	machinetest.Drain(a.m, 0)
	a.m.Sent()
	wantResults(t, &a.Sent, result{0, queue.Success})
}

func TestBadRequestStopsOnlyTheSendQueue(t *testing.T) {
	sge := func(a *end, n int) memory.SGE { return machinetest.SGE(a.src, 0, n) }
	for _, c := range []struct {
		name   string
		post   func(a *end)
		status queue.Status
		why    reason.Reason
	}{
		{"unknown key", func(a *end) { e := sge(a, 8); e.LKey ^= 0xff00; a.PostSend(op(queue.Send, 2), e) }, queue.LocProtErr, reason.LocalKey},
		{"bounds", func(a *end) { a.PostSend(op(queue.Send, 2), sge(a, bufferLen+1)) }, queue.LocProtErr, reason.LocalBounds},
		{"second entry", func(a *end) { a.PostSend(op(queue.Send, 2), sge(a, 8), sge(a, bufferLen+1)) }, queue.LocProtErr, reason.LocalBounds},
		{"length beyond the list", func(a *end) {
			a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.Length = queue.Send, 2, 9 }, sge(a, 8))
		}, queue.LocLenErr, reason.LocalLength},
		{"over 2^31", func(a *end) {
			a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.Length = queue.Send, 2, 1<<31+1 }, sge(a, 8))
		}, queue.LocLenErr, reason.LocalLength},
		{"inline room", func(a *end) {
			a.PostInline(nil, func(w *queue.SendWQE) { w.Op, w.WRID, w.Length = queue.Send, 2, 65 })
		}, queue.LocLenErr, reason.InlineTooLong},
		{"entries", func(a *end) {
			a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.NumSGE = queue.Send, 2, 5 }, sge(a, 8))
		}, queue.LocQPOpErr, reason.TooManySGEs},
		{"READ", func(a *end) { a.PostSend(op(queue.Read, 2), sge(a, 8)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"ATOMIC", func(a *end) { a.PostSend(op(queue.FetchAdd, 2), sge(a, 8)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"SEND with invalidate", func(a *end) { a.PostSend(op(queue.SendInv, 2), sge(a, 8)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"no operation", func(a *end) { a.PostSend(op(77, 2), sge(a, 8)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"bind", func(a *end) { a.PostSend(op(queue.BindMW, 2)) }, queue.MWBindErr, reason.BindRefused},
		{"invalidate", func(a *end) { a.PostSend(op(queue.LocalInv, 2)) }, queue.MWBindErr, reason.InvalidateRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t)
			a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.Flags = queue.Send, 1, queue.Signaled }, sge(a, 8))
			c.post(a)
			a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.Flags = queue.Send, 3, 0 }, sge(a, 8))
			packets := machinetest.Drain(a.m, 0)
			a.m.Sent()
			a.m.Expire(0)
			if len(packets) != 1 {
				t.Errorf("%d packets left, want that of request 1", len(packets))
			}
			l := a.Sent.Take()
			if len(l) != 3 || l[0].WRID != 1 || l[0].Status != queue.Success || l[1].WRID != 2 || l[1].Status != c.status ||
				l[1].Reason != c.why || l[1].Solicited != 1 || l[2].WRID != 3 || l[2].Status != queue.WRFlushErr ||
				l[2].Expected != uint64(c.why) {
				t.Errorf("found %+v", l)
			}
			wantReasons(t, a, c.why)
			// IBTA 10.3.1.6: the receive side continues.
			if a.Attr.State != qp.SQE || !slices.Equal(a.States, []string{"RTS>SQE"}) {
				t.Fatalf("state %v, changes %v", a.Attr.State, a.States)
			}
			a.PostRecv(4, machinetest.SGE(a.dst, 0, 8))
			b.PostSend(op(queue.Send, 1), machinetest.SGE(b.src, 0, 8))
			for _, p := range machinetest.Drain(b.m, 0) {
				a.m.Receive(0, machinetest.Decode(p, machinetest.AddrB, machinetest.AddrA))
			}
			wantResults(t, &a.Received, result{4, queue.Success})
			// Requests posted in SQE are flushed. Those posted in RTS again are sent, with the
			// PSN that the peer expects.
			a.PostSend(op(queue.Send, 5), sge(a, 8))
			if len(machinetest.Drain(a.m, 0)) != 0 {
				t.Error("a packet left in SQE")
			}
			wantResults(t, &a.Sent, result{5, queue.WRFlushErr})
			a.PostSend(op(queue.Send, 6), sge(a, 8))
			a.Move(a.m, qp.RTS)
			wantResults(t, &a.Sent, result{6, queue.WRFlushErr})
			a.PostSend(op(queue.Send, 7), sge(a, 8))
			if p := machinetest.Drain(a.m, 0); len(p) != 1 || header(p[0]).PSN != a.firstPSN.Next() {
				t.Errorf("found %d packets", len(p))
			}
		})
	}
}

func TestErrorInMiddleOfMessageWaitsForItsPackets(t *testing.T) {
	a, _ := pair(t)
	a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 300))
	machinetest.Drain(a.m, 1)
	if err := a.Memory.Deregister(a.src); err != nil {
		t.Fatal(err)
	}
	if n := len(machinetest.Drain(a.m, 0)); n != 0 {
		t.Errorf("%d packets from memory that is gone", n)
	}
	wantResults(t, &a.Sent)
	if a.m.Deadline() != 0 {
		t.Error("no deadline while an error waits")
	}
	a.m.Expire(0)
	wantResults(t, &a.Sent, result{1, queue.LocProtErr})
}

func TestErrorStateFlushesBothQueues(t *testing.T) {
	a, _ := pair(t)
	for i := range 50 {
		a.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.Flags = queue.Send, uint64(i), 0 }, machinetest.SGE(a.src, 0, 300))
		a.PostRecv(uint64(i), machinetest.SGE(a.dst, 0, 8))
	}
	machinetest.Drain(a.m, 3) // one request and a half
	a.Move(a.m, qp.Err)
	if n := len(machinetest.Drain(a.m, 0)); n != 0 {
		t.Errorf("%d packets left in ERR", n)
	}
	for n := 0; a.m.Deadline() == 0; n++ {
		if n > 10 {
			t.Fatal("the flush does not end")
		}
		a.m.Expire(0)
	}
	sent, received := results(&a.Sent), results(&a.Received)
	if len(sent) != 49 || sent[0] != (result{1, queue.WRFlushErr}) || sent[48].id != 49 {
		t.Errorf("sends: %d completions, %v", len(sent), sent)
	}
	if len(received) != 50 || received[0] != (result{0, queue.WRFlushErr}) || received[49].id != 49 {
		t.Errorf("receives: %d completions, %v", len(received), received)
	}
	a.PostSend(op(queue.Send, 90), machinetest.SGE(a.src, 0, 8))
	a.PostRecv(91)
	machinetest.Drain(a.m, 0)
	wantResults(t, &a.Sent, result{90, queue.WRFlushErr})
	wantResults(t, &a.Received, result{91, queue.WRFlushErr})
}

func TestFlushIsLimitedPerCall(t *testing.T) {
	a, _ := pair(t)
	for i := range 80 {
		a.PostRecv(uint64(i))
	}
	a.Move(a.m, qp.Err)
	machinetest.Drain(a.m, 0)
	n := len(a.Received.List)
	if n == 0 || n >= 80 || a.m.Deadline() != 0 {
		t.Errorf("%d of 80 flushed at once, deadline %v", n, a.m.Deadline())
	}
	for range 5 {
		a.m.Expire(0)
	}
	if n := len(a.Received.List); n != 80 || a.m.Deadline() != machine.Never {
		t.Errorf("%d of 80 flushed, deadline %v", n, a.m.Deadline())
	}
}

func TestFlushOfSendsIsLimitedPerCall(t *testing.T) {
	a, _ := pair(t)
	for i := range 60 {
		a.PostSend(op(queue.Send, uint64(i)))
	}
	a.Move(a.m, qp.Err)
	machinetest.Drain(a.m, 0)
	if n := len(a.Sent.List); n == 0 || n == 60 || a.m.Deadline() != 0 {
		t.Errorf("%d of 60 flushed at once, deadline %v", n, a.m.Deadline())
	}
	a.m.Expire(0)
	if n := len(a.Sent.List); n != 60 || a.m.Deadline() != machine.Never {
		t.Errorf("%d of 60 flushed, deadline %v", n, a.m.Deadline())
	}
}

func TestMessageLimitIsNamed(t *testing.T) {
	for n, limit := range map[uint32]uint64{1 << 31: 8, 1<<31 + 1: 1 << 31} {
		a, _ := pair(t)
		a.PostSend(func(w *queue.SendWQE) { w.Op, w.Length = queue.Send, n }, machinetest.SGE(a.src, 0, 8))
		machinetest.Drain(a.m, 0)
		// IBTA C9-94: 2^31 is allowed, and only fails because its list is shorter.
		if len(a.Refused) != 1 || a.Refused[0].Reason != reason.LocalLength || a.Refused[0].Expected != limit {
			t.Errorf("%d bytes: found %v", n, a.Refused)
		}
	}
}

func TestSendOverTheLongestMessageIsDropped(t *testing.T) {
	_, b := pair(t)
	b.PostRecv(1)
	b.Receives.List[0].Length = 1 << 33
	r := &b.m.responder
	r.kind, r.opcode, r.pos = ib.KindSend, ib.UCSendMiddle, machine.MaxMessage-1
	in := &machine.In{Src: machinetest.AddrA, Dst: machinetest.AddrB}
	in.Opcode, in.PSN, in.Payload = ib.UCSendLast, r.psn, make([]byte, 2)
	b.m.Receive(0, in)
	if got := b.Reasons(); !slices.Equal(got, []reason.Reason{reason.LengthLimit}) || b.Attr.State != qp.RTS {
		t.Errorf("reasons %v, state %v", got, b.Attr.State)
	}
}

func TestErrorStateFlushesReceiveOfUnfinishedMessage(t *testing.T) {
	for _, shared := range []bool{false, true} {
		a, b := pair(t)
		b.Receives.IsShared = shared
		b.PostRecv(1, machinetest.SGE(b.dst, 0, 1000))
		b.PostRecv(2, machinetest.SGE(b.dst, 0, 1000))
		a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 300))
		send(b, machinetest.Drain(a.m, 1)...)
		b.Move(b.m, qp.Err)
		machinetest.Drain(b.m, 0)
		machinetest.Drain(b.m, 0)
		if shared {
			wantResults(t, &b.Received, result{1, queue.WRFlushErr})
			if len(b.Receives.List) != 1 || !slices.Equal(b.Events, []machine.Event{machine.EventQPLastWQEReached}) {
				t.Errorf("shared queue: %d left, events %v", len(b.Receives.List), b.Events)
			}
		} else {
			wantResults(t, &b.Received, result{1, queue.WRFlushErr}, result{2, queue.WRFlushErr})
		}
	}
}

func TestResetForgetsEverything(t *testing.T) {
	a, b := pair(t)
	for i := range 3 {
		a.PostSend(op(queue.Send, uint64(i)), machinetest.SGE(a.src, 0, 300))
		b.PostRecv(uint64(i), machinetest.SGE(b.dst, 0, 1000))
	}
	send(b, machinetest.Drain(a.m, 3)...)
	b.Received.Take()
	for _, e := range []*end{a, b} {
		e.Move(e.m, qp.Reset)
		if n := len(machinetest.Drain(e.m, 0)); n != 0 || e.m.Deadline() != machine.Never || e.SQ.Len() != 0 || len(e.Receives.List) != 0 {
			t.Errorf("after RESET: %d packets, deadline %v, %d sends, %d receives", n, e.m.Deadline(), e.SQ.Len(), len(e.Receives.List))
		}
		wantResults(t, &e.Sent)
		wantResults(t, &e.Received)
	}
	a.Attr.SQPSN, b.Attr.RQPSN = 5, 5
	a.Move(a.m, qp.Init, qp.RTR, qp.RTS)
	b.Move(b.m, qp.Init, qp.RTR)
	b.PostRecv(8, machinetest.SGE(b.dst, 0, 1000))
	a.PostSend(op(queue.Send, 7), machinetest.SGE(a.src, 0, 300))
	p := machinetest.Drain(a.m, 0)
	send(b, p...)
	wantResults(t, &b.Received, result{8, queue.Success})
	wantReasons(t, b)
	if header(p[0]).PSN != 5 {
		t.Errorf("first PSN %v", header(p[0]).PSN)
	}
}

func TestNothingIsSentBeforeRTS(t *testing.T) {
	a := newEnd(t, 1, 2, 0, 0)
	a.Move(a.m, qp.Reset, qp.Init)
	a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 8))
	for _, s := range []qp.State{qp.Init, qp.RTR} {
		a.Move(a.m, s)
		if n := len(machinetest.Drain(a.m, 0)); n != 0 {
			t.Errorf("%d packets in %v", n, s)
		}
	}
	a.Move(a.m, qp.RTS)
	if n := len(machinetest.Drain(a.m, 0)); n != 1 {
		t.Errorf("%d packets in RTS", n)
	}
}

func TestDataPathDoesNotAllocate(t *testing.T) {
	a, b := pair(t)
	var out machine.Out
	out.Pieces = make([][]byte, 0, 8)
	in := &machine.In{Src: machinetest.AddrA}
	a.Sent.List, b.Received.List = make([]queue.CQE, 0, 4), make([]queue.CQE, 0, 4)
	list := []memory.SGE{machinetest.SGE(a.src, 0, 100)}
	recv := machine.Receive{WRID: 1, Length: 200, SGEs: []memory.SGE{machinetest.SGE(b.dst, 0, 200)}}
	b.Receives.List = make([]machine.Receive, 1)
	receives := b.Receives.List
	delivered := 0
	n := testing.AllocsPerRun(100, func() {
		receives[0] = recv
		b.Receives.List = receives
		a.PostSend(nil, list...)
		a.SQ.At(a.SQ.Producer() - 1).Op = queue.Send
		for a.m.Next(0, &out) {
			in.BTH, in.Payload = out.BTH, out.Pieces[0]
			b.m.Receive(0, in)
		}
		a.m.Sent()
		delivered += len(a.Sent.List) + len(b.Received.List)
		a.Sent.List, b.Received.List = a.Sent.List[:0], b.Received.List[:0]
	})
	if n != 0 || delivered != 202 { // AllocsPerRun runs once more to warm up
		t.Errorf("%v allocations per message, %d completions of 202", n, delivered)
	}
}

func TestDuplicateOpcodeOfDroppedMessageIsNamed(t *testing.T) {
	a, b := pair(t)
	in := &machine.In{Src: machinetest.AddrA}
	for i := range 3 {
		in.Opcode, in.PSN, in.Payload = ib.UCSendMiddle, a.firstPSN.Add(i), make([]byte, 256)
		b.m.Receive(0, in)
	}
	wantReasons(t, b, reason.OpcodeSequence, reason.OpcodeSequence, reason.OpcodeSequence)
}
