package iwarp

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

func (n *node) move(to ...qp.State) {
	for _, s := range to {
		from := n.Attr.State
		n.Attr.State = s
		n.q.Transition(0, from)
	}
}

func connected(t *testing.T, a, b *Params) (*pair, *node, *node) {
	t.Helper()
	p := newPair(t, nil)
	p.connect(a, b)
	return p, p.n[0], p.n[1]
}

// flushed reports whether list holds n flushed completions with the given reason.
func flushed(list []queue.CQE, n int, why reason.Reason) bool {
	for _, c := range list {
		if c.Status != queue.WRFlushErr || c.Reason != reason.Flushed || c.Expected != uint64(why) {
			return false
		}
	}
	return len(list) == n
}

func TestDisconnectClosesBothEnds(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	b.PostRecv(1, b.sge(0, 10))
	b.PostRecv(2, b.sge(0, 10))
	a.PostRecv(1, a.sge(0, 10))
	a.post(queue.Send, 100, 10, queue.RDMA{})
	p.run()
	if err := a.s.Disconnect(0); err != nil {
		t.Fatal(err)
	}
	a.post(queue.Send, 100, 10, queue.RDMA{}) // posted after the disconnect
	p.run()
	if !flushed(a.Sent.List[1:], 1, reason.StreamClosed) || !flushed(a.Received.List, 1, reason.StreamClosed) || !flushed(b.Received.List[1:], 1, reason.StreamClosed) {
		t.Errorf("%v; %v; %v", a.Sent.List, a.Received.List, b.Received.List)
	}
	for i, n := range p.n {
		if n.Attr.State != qp.Err || n.shut != ShutClose || n.last().Kind != Closed || n.last().Detail.Reason != reason.StreamClosed || len(n.Events) > 0 {
			t.Errorf("end %d in %v, shut %d, heard %+v, events %v", i, n.Attr.State, n.shut, n.last(), n.Events)
		}
	}
	if a.s.Disconnect(0) == nil {
		t.Error("disconnected twice")
	}
	// Requests posted later are flushed too.
	b.post(queue.Send, 0, 1, queue.RDMA{})
	b.q.Settle(0)
	if !flushed(b.Sent.List, 1, reason.StreamClosed) {
		t.Errorf("%+v", b.Sent.List)
	}
}

// Resetting the queue pair does not interrupt an orderly disconnect.
func TestResetWhileDisconnectingKeepsTheDisconnect(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	b.PostRecv(1, b.sge(0, 100000))
	a.post(queue.Send, 0, 90000, queue.RDMA{})
	p.maxPiece, a.limit = 5000, a.sent+5000
	p.run()
	if err := a.s.Disconnect(0); err != nil {
		t.Fatal(err)
	}
	from := a.Attr.State
	a.Attr.State = qp.Reset
	a.q.Transition(0, from)
	if s := a.s.Shut(); s == ShutAbort {
		t.Fatal("the connection was aborted")
	}
	a.limit = 0
	p.run()
	for i, n := range p.n {
		if n.shut != ShutClose || n.last().Kind != Closed {
			t.Errorf("end %d: shut %d, heard %+v", i, n.shut, n.last())
		}
	}
}

// A disconnect in the middle of an FPDU sends the rest of it.
func TestDisconnectCompletesTheFPDUBeingSent(t *testing.T) {
	for _, markers := range []bool{false, true} {
		p, a, b := connected(t, defaults(), &Params{IRD: 4, ORD: 4, Markers: markers})
		b.PostRecv(1, b.sge(0, 100000))
		a.post(queue.Write, 0, 100, b.target(0))
		a.post(queue.Send, 0, 90000, queue.RDMA{})
		p.maxPiece, a.limit = 5000, a.sent+5000
		p.run()
		if err := a.s.Disconnect(0); err != nil {
			t.Fatal(err)
		}
		clear(a.mem) // the consumer may reuse the memory
		a.limit = 0
		p.run()
		if b.last().Detail.Reason != reason.StreamClosed || b.shut != ShutClose || !flushed(b.Received.List, 1, reason.StreamClosed) || !flushed(a.Sent.List[1:], 1, reason.StreamClosed) {
			t.Errorf("markers %v: heard %+v, received %+v, sent %+v", markers, b.last(), b.Received.List, a.Sent.List)
		}
	}
}

func TestUserErrorStateAborts(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	a.PostRecv(1, a.sge(0, 10))
	b.PostRecv(1, b.sge(0, 10))
	a.post(queue.Read, 0, 10, b.target(0))
	s := a.s
	a.move(qp.Err)
	if !flushed(a.Sent.List, 1, reason.None) || !flushed(a.Received.List, 1, reason.None) || s.Shut() != ShutAbort || a.q.Stream() != nil {
		t.Errorf("%+v, shut %d", a.Sent.List, s.Shut())
	}
	p.run()
	if b.Attr.State != qp.Err || b.last().Detail.Reason != reason.StreamLost || !flushed(b.Received.List, 1, reason.StreamLost) {
		t.Errorf("peer in %v, heard %+v, %+v", b.Attr.State, b.last(), b.Received.List)
	}
	// The queue pair can be used again.
	a.move(qp.Reset, qp.Init)
	b.move(qp.Reset, qp.Init)
	p2 := newPair(t, nil)
	for i, n := range []*node{a, b} {
		n.events, n.shut, n.closed, n.unread = nil, 0, false, nil
		n.s = NewStream(&Pool{}, func(e *Event) { n.events = append(n.events, *e) })
		p2.n[i] = n
	}
	p2.connect(defaults(), defaults())
	a.Sent.List, b.Received.List = nil, nil
	b.PostRecv(2, b.sge(0, 10))
	a.post(queue.Send, 0, 10, queue.RDMA{})
	p2.run()
	if len(a.Sent.List) != 1 || a.Sent.List[0].Status != queue.Success || len(b.Received.List) != 1 || b.Received.List[0].Status != queue.Success {
		t.Errorf("%+v, %+v, refused %v %v", a.Sent.List, b.Received.List, a.Refused, b.Refused)
	}
}

func TestResetForgets(t *testing.T) {
	_, a, _ := connected(t, defaults(), defaults())
	a.PostRecv(1, a.sge(0, 10))
	a.post(queue.Read, 0, 10, queue.RDMA{})
	s := a.s
	a.move(qp.Reset)
	if len(a.Sent.List)+len(a.Received.List)+a.SQ.Len()+len(a.Receives.List) != 0 || s.Shut() != ShutAbort {
		t.Errorf("%+v, %+v, shut %d", a.Sent.List, a.Received.List, s.Shut())
	}
}

// If the connection ends with READs outstanding, the oldest fails with the status that an
// unresponsive peer causes on InfiniBand.
func TestLossFailsTheOldestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		end func(s *Stream)
		why reason.Reason
	}{
		"end of the stream": {func(s *Stream) { s.Closed(0, false) }, reason.StreamLost},
		"reset":             {func(s *Stream) { s.Closed(0, true) }, reason.StreamLost},
		"timeout of TCP":    {func(s *Stream) { s.TimedOut(0) }, reason.StreamTimeout},
	} {
		r := newRaw(t, defaults(), nil)
		r.PostRecv(1, r.sge(0, 10))
		for range 3 {
			r.post(queue.Read, 0, 10, queue.RDMA{})
		}
		r.drain()
		c.end(r.s)
		l := r.Sent.List
		if len(l) != 3 || l[0].Status != queue.RetryExcErr || l[0].Reason != c.why || l[0].Expected != 3 || !flushed(l[1:], 2, c.why) {
			t.Errorf("%s: %+v", name, l)
		}
		if r.s.Shut() != ShutClose || r.last().Detail.Reason != c.why || !flushed(r.Received.List, 1, c.why) {
			t.Errorf("%s: shut %d, heard %+v", name, r.s.Shut(), r.last())
		}
	}
}

// This test ends the stream after each byte of a conversation.
func TestEveryCutCompletesEverythingOnce(t *testing.T) {
	for cut := 1; ; cut++ {
		p, a, b := connected(t, &Params{IRD: 4, ORD: 4, MaxFPDU: 128, Extensions: ExtensionsAsk}, &Params{IRD: 4, ORD: 4, MaxFPDU: 128, Markers: cut%3 == 0})
		for i := range 3 {
			b.PostRecv(uint64(i), b.sge(0, 300))
		}
		a.post(queue.Send, 0, 250, queue.RDMA{})
		a.post(queue.Write, 0, 70, b.target(0))
		a.post(queue.Read, 500, 150, b.target(0))
		a.post(queue.FetchAdd, 500, 8, b.target(0))
		a.post(queue.WriteImm, 0, 70, b.target(0))
		a.limit = a.sent + cut
		p.run()
		whole := len(a.Sent.List) == 5
		a.s.Closed(0, false)
		b.s.Closed(0, false)
		if len(a.Sent.List) != 5 || len(b.Received.List) != 3 {
			t.Fatalf("cut at %d: %d of 5 sends and %d of 3 receives completed", cut, len(a.Sent.List), len(b.Received.List))
		}
		failed := false
		for i, c := range a.Sent.List {
			if failed = failed || c.Status != queue.Success; failed && c.Status == queue.Success {
				t.Fatalf("cut at %d: %s", cut, brief(a.Sent.List))
			}
			if i > 0 && c.WRID <= a.Sent.List[i-1].WRID {
				t.Fatalf("cut at %d: %s", cut, brief(a.Sent.List))
			}
		}
		if whole {
			if cut < 400 || cut > 2000 {
				t.Fatalf("all sent with %d bytes", cut)
			}
			return
		}
	}
}

func TestLocalFaultFailsRequestInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		fill   func(w *queue.SendWQE, r *raw) []memory.SGE
		status queue.Status
		want   reason.Reason
	}{
		"L_Key of a short SEND": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			return []memory.SGE{{Addr: r.region.Base, Length: 9, LKey: r.region.Key ^ 1}}
		}, queue.LocProtErr, reason.LocalKey},
		"L_Key of a long SEND": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			return []memory.SGE{{Addr: r.region.Base, Length: 90000, LKey: r.region.Key ^ 1}}
		}, queue.LocProtErr, reason.LocalKey},
		"bounds": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			return []memory.SGE{r.sge(memLen-5, 6)}
		}, queue.LocProtErr, reason.LocalBounds},
		"READ into read-only memory": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.Read
			return []memory.SGE{{Length: 6, LKey: r.other(machinetest.PD, 0, 0).Key}}
		}, queue.LocProtErr, reason.LocalAccess},
		"length": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			e := r.sge(0, 1)
			e.Length = 1 << 31
			return []memory.SGE{e, e}
		}, queue.LocLenErr, reason.LocalLength},
		"short fetch-and-add": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.FetchAdd
			return []memory.SGE{r.sge(0, 7)}
		}, queue.LocLenErr, reason.LocalLength},
		"short compare-and-swap": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.CompareSwap
			return []memory.SGE{r.sge(0, 7)}
		}, queue.LocLenErr, reason.LocalLength},
		"long compare-and-swap": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.CompareSwap
			return []memory.SGE{r.sge(0, 16)}
		}, queue.LocLenErr, reason.LocalLength},
		"operation": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = 77
			return nil
		}, queue.LocQPOpErr, reason.LocalOpcode},
		"SEND with immediate data": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.SendImm
			return nil
		}, queue.LocQPOpErr, reason.RDMAPExtension},
		"entries": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.NumSGE = 5
			return nil
		}, queue.LocQPOpErr, reason.TooManySGEs},
		"bind": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.BindMW
			return nil
		}, queue.MWBindErr, reason.BindRefused},
		"invalidate": {func(w *queue.SendWQE, r *raw) []memory.SGE {
			w.Op = queue.LocalInv
			return nil
		}, queue.MWBindErr, reason.InvalidateRefused},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, defaults(), nil)
			r.post(queue.Read, 0, 0, queue.RDMA{})
			var list []memory.SGE
			r.PostSend(func(w *queue.SendWQE) { w.Op = queue.Send; list = c.fill(w, r) })
			i := r.SQ.Producer() - 1
			w := r.SQ.At(i)
			if list != nil {
				w.NumSGE = uint32(len(list))
				copy(r.SQ.SGERoom(i), list)
			}
			r.post(queue.Send, 0, 5, queue.RDMA{})
			b := r.drain()
			if len(r.Sent.List) != 0 || len(fpdus(t, b, true)) == 0 {
				t.Fatalf("%s before the READ is answered", brief(r.Sent.List))
			}
			r.receive(r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.ReadResponse}, nil))
			l := r.Sent.List
			if len(l) != 3 || l[0].Status != queue.Success || l[1].Status != c.status || l[1].Reason != c.want || !flushed(l[2:], 1, c.want) {
				t.Errorf("%+v; %v", l, r.Refused)
			}
			if m, ok := r.termination(true); !ok || m.Term != iwarp.TermLocal || m.HasLength {
				t.Errorf("sent %+v", m)
			}
			ended(t, r)
		})
	}
}

func TestSendQueueDrains(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	a.Attr.EnSQDNotify = true
	a.post(queue.Read, 0, 200000, b.target(300000))
	a.limit = a.sent + 20
	p.run()
	a.move(qp.SQD)
	a.limit = 0
	a.post(queue.Write, 0, 10, b.target(0))
	if !a.Attr.SQDraining || len(a.Events) > 0 {
		t.Error("drained too early")
	}
	p.run()
	if len(a.Sent.List) != 1 || a.Attr.SQDraining || len(a.Events) != 1 || a.Events[0] != machine.EventSQDrained {
		t.Errorf("%+v, draining %v, events %v", a.Sent.List, a.Attr.SQDraining, a.Events)
	}
	a.move(qp.RTS)
	p.run()
	if len(a.Sent.List) != 2 {
		t.Errorf("%+v", a.Sent.List)
	}
}

func TestSharedReceiveQueueKeepsItsRequests(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	b.Receives.IsShared = true
	b.PostRecv(1, b.sge(0, 100))
	b.PostRecv(2, b.sge(0, 100))
	a.post(queue.Send, 0, 10, queue.RDMA{})
	p.run()
	b.move(qp.Err)
	if len(b.Received.List) != 1 || len(b.Receives.List) != 1 || len(b.Events) != 1 || b.Events[0] != machine.EventQPLastWQEReached {
		t.Errorf("%+v, %d left, events %v", b.Received.List, len(b.Receives.List), b.Events)
	}
}

func TestSendInvalidatesWindow(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	key, err := b.Memory.AllocWindow(machinetest.PD, memory.MW2)
	if err != nil {
		t.Fatal(err)
	}
	b.PostSend(func(w *queue.SendWQE) {
		w.Op = queue.BindMW
		*w.MW() = queue.MW{Addr: b.region.Base, Length: 100, MRLKey: b.region.Key, MWRKey: key, RKey: key ^ 1, Access: uint32(qp.RemoteWrite)}
	})
	b.PostRecv(1, b.sge(500, 10))
	a.post(queue.Write, 0, 50, queue.RDMA{Addr: b.region.Base, RKey: key ^ 1})
	a.mem[3] = 77
	b.q.s.Next(0, &b.out) // binds
	a.PostSend(func(w *queue.SendWQE) { w.Op = queue.SendInv; w.Flags |= queue.Solicited; w.ImmInv = key ^ 1 }, a.sge(0, 10))
	p.run()
	if len(b.Sent.List) != 1 || b.Sent.List[0].Op != queue.WCBindMW || b.mem[3] != 77 {
		t.Fatalf("%+v, refused %v", b.Sent.List, b.Refused)
	}
	c := b.Received.List
	if len(c) != 1 || c[0].Flags != queue.WCWithInv || c[0].ImmInv != key^1 || c[0].Solicited != 1 || b.Memory.Lookup(key^1).Valid() {
		t.Errorf("%+v", c)
	}
	a.post(queue.Write, 0, 50, queue.RDMA{Addr: b.region.Base, RKey: key ^ 1})
	p.run()
	if b.Refused[0].Reason != reason.KeyInvalid || a.Attr.State != qp.Err {
		t.Errorf("refused %v", b.Refused)
	}
}

// A marker with a wrong position ends the stream.
func TestMarkerThatPointsElsewhere(t *testing.T) {
	p, a, b := connected(t, defaults(), &Params{IRD: 4, ORD: 4, Markers: true})
	at, changed := 0, false
	p.tamper = func(to int, x []byte) {
		if to == 1 {
			for i := range x {
				if (at+i+b.q.rx.pos)%iwarp.MarkerSpacing == 3 && at+i > 600 && !changed {
					x[i] += 4
					changed = true
				}
			}
			at += len(x)
		}
	}
	a.post(queue.Write, 0, 3000, b.target(0))
	p.run()
	if !changed || b.Refused[0].Reason != reason.MPAMarker || a.q.term != iwarp.TermMPAMarker {
		t.Errorf("changed %v, refused %v, Terminate %v", changed, b.Refused, a.q.term)
	}
}
