package sanitize

import (
	"slices"
	"strings"
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A rig is a program with a queue pair, whose calls have the number of their order as position.
type rig struct {
	*Sanitizer
	call   uintptr
	found  []*Finding
	table  *memory.Table
	sq     *queue.SendRing
	rq     *queue.RecvRing
	cq     *queue.CompletionRing
	buffer []byte
	mr     *memory.Region
	state  qp.State
}

const (
	pairKey  = "pair"
	queueKey = "queue"
)

func newRig(t *testing.T, rules string) *rig {
	t.Helper()
	set, err := ParseRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{table: memory.NewTable(), sq: queue.NewSendRing(7, 1, 64), rq: queue.NewRecvRing(7, 1), cq: queue.NewCompletionRing(15), buffer: make([]byte, 4096), state: qp.RTS}
	r.Sanitizer = New(&Config{
		Rules:  set,
		Where:  func() []uintptr { r.call++; return []uintptr{r.call} },
		Frames: func(pcs []uintptr) []Frame { return []Frame{{Function: "call", Line: int(pcs[0])}} },
		Report: func(f *Finding) { r.found = append(r.found, f) },
	})
	r.CreatedCQ(queueKey, Completions{Ring: func() *queue.CompletionRing { return r.cq }, Events: true})
	r.CreatedPair(pairKey, &Pair{
		QPN: 0x11, Type: qp.RC, PD: 1, RecvPD: 1, SQ: r.sq, Recv: func() *queue.RecvRing { return r.rq },
		SendCQ: queueKey, RecvCQ: queueKey, State: func() qp.State { return r.state },
	})
	r.mr = r.register(t, 1, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead)
	return r
}

func (r *rig) register(t *testing.T, pd uint32, access qp.Access) *memory.Region {
	t.Helper()
	mr, err := r.table.Register(pd, r.buffer, 0x1000, access)
	if err != nil {
		t.Fatal(err)
	}
	r.Registered(mr)
	return mr
}

func (r *rig) deregister(mr *memory.Region) {
	r.Deregistering(mr)
	_ = r.table.Deregister(mr)
	r.Deregistered(mr)
}

func (r *rig) post(op queue.Op, flags queue.Flags, key uint32) {
	i := r.sq.Producer()
	w := r.sq.At(i)
	*w = queue.SendWQE{WRID: uint64(i), Op: op, Flags: flags, NumSGE: 1, Length: 64}
	r.sq.SGERoom(i)[0] = memory.SGE{Addr: 0x1000, Length: 64, LKey: key}
	r.sq.Publish(r.sq.Next(i))
	r.Posted(pairKey)
}

func (r *rig) receive(key uint32) {
	i := r.rq.Producer()
	r.rq.At(i).NumSGE = 1
	r.rq.SGERoom(i)[0] = memory.SGE{Addr: 0x1000, Length: 64, LKey: key}
	r.rq.Publish(r.rq.Next(i))
	r.PostedReceives(pairKey)
}

// arrive takes the oldest receive for a message, of which the device writes a byte.
func (r *rig) arrive(t *testing.T, content byte) {
	t.Helper()
	i := r.rq.Consumer()
	r.Taking(pairKey, i, true)
	list := slices.Clone(r.rq.SGEs(i))
	r.rq.Release(r.rq.Next(i))
	r.write(t, list[0].Addr, content)
}

// write writes a byte as the device does.
func (r *rig) write(t *testing.T, addr uint64, content byte) {
	t.Helper()
	if d := r.mr.Put(addr, []byte{content}); d.Reason != reason.None {
		t.Fatal(d)
	}
}

// complete completes the oldest request.
func (r *rig) complete(status queue.Status) {
	i := r.sq.Consumer()
	e := queue.CQE{WRID: r.sq.At(i).WRID, Status: status, QPN: 0x11}
	r.sq.Release(r.sq.Next(i))
	r.Completed(pairKey, &e)
	r.cq.Put(&e)
}

func (r *rig) poll() { r.cq.Release(r.cq.Producer()) }

func (r *rig) rules() (list []string) {
	for _, f := range r.found {
		list = append(list, f.Rule)
	}
	return list
}

func TestSanitizerMistakeIsFoundOnce(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		do   func(r *rig)
	}{
		{UseAfterDereg, func(r *rig) { r.deregister(r.mr); r.post(queue.Write, queue.Signaled, r.mr.Key) }},
		{UseAfterDereg, func(r *rig) {
			r.deregister(r.mr)
			r.Refused(0x11, reason.Detail{Reason: reason.KeyUnknown, Found: uint64(r.mr.Key)})
			r.Refused(0x11, reason.Detail{Reason: reason.KeyUnknown, Found: uint64(r.mr.Key)})
		}},
		{UseAfterDereg, func(r *rig) {
			r.deregister(r.mr)
			r.Completed(pairKey, &queue.CQE{Op: queue.WCRecv, Status: queue.LocProtErr, Reason: reason.ReceiveLocalKey, Expected: uint64(r.mr.Key)})
		}},
		{DeregInFlight, func(r *rig) { r.post(queue.Write, queue.Signaled, r.mr.Key); r.deregister(r.mr) }},
		{DeregInFlight, func(r *rig) { r.receive(r.mr.Key); r.deregister(r.mr) }},
		{SendChanged, func(r *rig) { r.post(queue.Send, queue.Signaled, r.mr.Key); r.buffer[5]++; r.complete(queue.Success) }},
		{ReceiveChanged, func(r *rig) {
			r.receive(r.mr.Key)
			r.buffer[5]++
			r.arrive(t, 1)
		}},
		{ReceiveChanged, func(r *rig) { // by the program, and then by a WRITE
			r.receive(r.mr.Key)
			r.buffer[5]++
			r.write(t, 0x1000+7, 1)
		}},
		{ReadChanged, func(r *rig) {
			r.post(queue.Read, queue.Signaled, r.mr.Key)
			r.buffer[5]++
			r.write(t, 0x1000, 1)
			r.complete(queue.Success)
		}},
		{ReadChanged, func(r *rig) {
			r.post(queue.CompareSwap, queue.Signaled, r.mr.Key)
			r.buffer[5]++
			r.write(t, 0x1000, 1)
			r.complete(queue.Success)
		}},
		{UseAfterDereg, func(r *rig) { // found when it is posted, and not again when it fails
			r.deregister(r.mr)
			r.receive(r.mr.Key)
			r.Taking(pairKey, r.rq.Consumer(), true)
			r.Completed(pairKey, &queue.CQE{Op: queue.WCRecv, Status: queue.LocProtErr, Reason: reason.ReceiveLocalKey, Expected: uint64(r.mr.Key)})
		}},
		{SendsUnsignaled, func(r *rig) {
			for range 8 {
				r.post(queue.Send, 0, r.mr.Key)
				r.sq.Release(r.sq.Producer())
			}
		}},
		{CQTooShallow, func(r *rig) {
			r.cq = queue.NewCompletionRing(3)
			for range 4 {
				r.post(queue.Write, queue.Signaled, r.mr.Key)
			}
		}},
		{CQTooShallow, func(r *rig) {
			r.cq = queue.NewCompletionRing(3)
			for range 3 {
				r.receive(r.mr.Key)
			}
			r.post(queue.Write, queue.Signaled, r.mr.Key)
		}},
		{CQUnpolled, func(r *rig) {
			r.post(queue.Write, queue.Signaled, r.mr.Key)
			r.complete(queue.Success)
			r.Destroyed(queueKey)
		}},
		{FailureUnpolled, func(r *rig) {
			for range 2 {
				r.post(queue.Write, queue.Signaled, r.mr.Key)
			}
			r.complete(queue.Success)
			r.poll()
			r.complete(queue.RemAccessErr)
			r.Destroyed(queueKey)
		}},
		{EventUnarmed, func(r *rig) { r.Arming(queueKey, false); r.Waits(); r.Took(); r.Waits() }},
		{ReceiveMissing, func(r *rig) { r.Refused(0x11, reason.Detail{Reason: reason.NoReceive}) }},
		{AtomicUnaligned, func(r *rig) {
			i := r.sq.Producer()
			w := r.sq.At(i)
			*w = queue.SendWQE{Op: queue.FetchAdd, Flags: queue.Signaled}
			w.Atomic().Addr = 0x1004
			r.sq.Publish(r.sq.Next(i))
			r.Posted(pairKey)
		}},
		{RightsUnused, func(r *rig) {
			r.mr.CheckRemote(1, 0, 0x1000, 8, qp.RemoteWrite)
			r.deregister(r.mr)
		}},
	} {
		t.Run(c.rule.String(), func(t *testing.T) {
			r := newRig(t, "all")
			r.cfg.Rules &^= 1 << RightsUnused
			if c.rule == RightsUnused {
				r.cfg.Rules = 1 << RightsUnused
			}
			if c.do(r); !slices.Equal(r.rules(), []string{c.rule.String()}) {
				t.Fatalf("found %v", r.rules())
			}
			f := r.found[0]
			if text := f.String(); !strings.Contains(text, "== softrdma: "+f.Rule+": ") || !strings.Contains(text, c.rule.Text().Do) {
				t.Error(text)
			}
			if len(f.Where)+len(f.Before) == 0 {
				t.Error("no position")
			}
		})
	}
}

func TestSanitizerOtherDomainsRegionIsFound(t *testing.T) {
	r := newRig(t, "")
	r.post(queue.Write, queue.Signaled, r.register(t, 2, qp.LocalWrite).Key)
	if !slices.Equal(r.rules(), []string{"LKEY_OTHER_PD"}) {
		t.Errorf("found %v", r.rules())
	}
}

func TestSanitizerLeaksAreInOrderOfCreation(t *testing.T) {
	r := newRig(t, "")
	r.Ended()
	r.Ended()
	var objects []string
	for _, f := range r.found {
		objects = append(objects, f.Rule+" "+strings.Fields(f.Object)[0])
	}
	if want := []string{"OBJECT_LEAKED completion", "OBJECT_LEAKED queue", "OBJECT_LEAKED region"}; !slices.Equal(objects, want) {
		t.Errorf("found %v", objects)
	}
}

// A program without mistakes.
func TestSanitizerCorrectProgramHasNoFinding(t *testing.T) {
	r := newRig(t, "default")
	for n := range 100 {
		r.receive(r.mr.Key)
		r.buffer[7] = byte(n) // also of the unsignalled request
		r.post(queue.Send, 0, r.mr.Key)
		r.post(queue.Write, queue.Signaled, r.mr.Key)
		r.sq.Release(r.sq.Next(r.sq.Consumer()))
		r.complete(queue.Success)
		r.poll()
		r.rq.Release(r.rq.Producer())
		r.Arming(queueKey, false)
		r.Arming(queueKey, true)
		r.Waits()
		r.Took()
	}
	r.state = qp.Err
	r.receive(r.mr.Key) // is flushed
	r.deregister(r.mr)
	r.Destroyed(pairKey)
	r.Destroyed(queueKey)
	r.Ended()
	if len(r.found) > 0 {
		t.Errorf("found %v", r.found[0])
	}
	if len(r.objects)+len(r.pairs)+len(r.queues) > 0 {
		t.Error("objects are left")
	}
}

// A device may find a request in the ring, and complete it, before the program rings the doorbell.
func TestSanitizerRequestCompletedBeforeItsDoorbell(t *testing.T) {
	r := newRig(t, "default")
	for n := range 3 {
		r.buffer[0] = byte(n)
		i := r.sq.Producer()
		*r.sq.At(i) = queue.SendWQE{Op: queue.Write, Flags: queue.Signaled, NumSGE: 1, Length: 64}
		r.sq.SGERoom(i)[0] = memory.SGE{Addr: 0x1000, Length: 64, LKey: r.mr.Key}
		r.sq.Publish(r.sq.Next(i))
		r.complete(queue.Success)
		r.Posted(pairKey)
		r.poll()
	}
	if len(r.found) > 0 {
		t.Errorf("found %v", r.found[0])
	}
}

func TestSanitizerNilDoesNothing(t *testing.T) {
	var s *Sanitizer
	s.Created(1, "")
	s.Posted(1)
	s.Completed(1, nil)
	s.Waits()
	s.Took()
	s.Ended()
	s.Abandoned(nil)
	if New(nil) != nil {
		t.Error("found a Sanitizer without a configuration")
	}
}

func TestSanitizerForgetsOldRegions(t *testing.T) {
	r := newRig(t, "")
	for range 2 * remembered {
		r.deregister(r.register(t, 1, qp.LocalWrite))
	}
	if n := len(r.regions); n > remembered+1 {
		t.Errorf("%d regions", n)
	}
}

func TestRulesOfAList(t *testing.T) {
	for list, want := range map[string]int{"": int(rules) - 2, "default": int(rules) - 2, "all": int(rules), "all,-object_leaked": int(rules) - 1, "-OBJECT_LEAKED": int(rules) - 3, "SEND_CHANGED, CQ_UNPOLLED": 2} {
		s, err := ParseRules(list)
		n := 0
		for r := range All() {
			if s.Has(r) {
				n++
			}
		}
		if err != nil || n != want {
			t.Errorf("%q: expected %d, found %d, %v", list, want, n, err)
		}
	}
	if _, err := ParseRules("SEND_CHANGD"); err == nil || !strings.Contains(err.Error(), "SEND_CHANGED") {
		t.Error(err)
	}
}

func TestSuppressionsMatchFunctionsFilesAndObjects(t *testing.T) {
	f := &Finding{rule: ObjectLeaked, Rule: "OBJECT_LEAKED", Object: "protection domain", Before: []Note{{"", []Frame{{Function: "rdma_create_ep", Module: "/usr/lib/librdmacm.so.1"}, {Function: "main", File: "/src/a.c"}}}}}
	for text, want := range map[string]bool{
		"OBJECT_LEAKED:rdma_*": true, "*:librdmacm.so.1": true, "object_leaked:a.c": true, "OBJECT_LEAKED:protection domain": true, "all:main\n": true,
		"SEND_CHANGED:*": false, "OBJECT_LEAKED:other": false, "# OBJECT_LEAKED:*\n\n": false,
	} {
		l, err := ParseSuppressions(text)
		if err != nil || l.Match(f) != want {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
	for _, text := range []string{"OBJECT_LEAKED", "OBJECT_LEAKED:", "NO_RULE:*", "OBJECT_LEAKED:["} {
		if _, err := ParseSuppressions("\n" + text); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
