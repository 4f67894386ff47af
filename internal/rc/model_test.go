package rc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// The memory of each node in the model run. Sources are never written, targets only by the peer,
// results and receives only by this end.
const (
	srcAt, srcLen       = 0, 8192
	targetAt, targetLen = 8192, 8192
	wordAt, wordLen     = 16384, 64
	resultAt            = 20480 // READ and atomic results, a slot each
	recvAt              = 45056 // receives, a slot each
	slotLen             = 4096
	slots               = 5
	maxLen              = 3000
)

// A flow is one direction of the model: the requests of from to to, and their expected results.
type flow struct {
	r        *rand.Rand
	ops      []queue.Op
	work     int // requests to post
	from, to *node
	expect   []func(queue.CQE) error // of from's send completions, in order
	receive  []func(queue.CQE) error // of to's receive completions, in order
	target   []byte                  // expected content of to's targets at the end
	words    []byte
	hazard   bool // a READ of the targets is outstanding, so writes must fence
	results  int  // result slots used since the last fence
	posted   int
	sends    int // SENDs and WRITEs with immediate posted
	recvs    int // receives posted
	checked  int
	received int
}

// post posts a random work request and records its expected results.
func (f *flow) post(wrid uint64) {
	n := f.r.IntN(maxLen)
	switch f.r.IntN(4) {
	case 0:
		n = f.r.IntN(20)
	case 1:
		n = testMTU * f.r.IntN(4)
	}
	w := wqe{op: f.ops[f.r.IntN(len(f.ops))], srqn: testSRQN}
	w.imm = f.r.Uint32()
	off := f.r.IntN(srcLen - n)
	cut := f.r.IntN(n + 1)
	w.list = []memory.SGE{f.from.sge(srcAt+off, cut), f.from.sge(srcAt+off+cut, n-cut)}
	data := f.from.mem[srcAt+off : srcAt+off+n]
	if n <= f.from.port.SQ.MaxInline() && w.op != queue.Read && f.r.IntN(2) == 0 {
		w.flags |= queue.Inline
		w.inline = data
	}
	if f.r.IntN(10) == 0 {
		w.flags |= queue.Fence
	}
	f.choose(&w, wrid, data, n)
	if f.from.post(w) != wrid {
		panic("wrong work request number")
	}
	f.posted++
}

func (f *flow) choose(w *wqe, wrid uint64, data []byte, n int) {
	at := f.r.IntN(targetLen - n)
	w.remote = f.to.target(targetAt + at)
	var result func() error
	switch w.op {
	case queue.Write, queue.WriteImm:
		// IBTA 10.8.3.3: a WRITE may overtake a READ unless it fences.
		f.fenceIf(w, f.hazard)
		copy(f.target[at:], data)
	case queue.Read:
		f.slot(w, n)
		want := bytes.Clone(f.target[at : at+n])
		got := f.from.mem[w.list[0].Addr-f.from.mr.Base:][:n]
		result = func() error { return same("READ", got, want) }
		f.hazard = true
	case queue.CompareSwap, queue.FetchAdd:
		result = f.atomic(w)
		n = 8
	case queue.Flush:
		w.flush, w.length = f.to.flush(targetAt+at, ib.FlushRange), uint32(n)
		w.list, w.flags, n = nil, w.flags&^queue.Inline, 0
	case queue.AtomicWrite:
		at := 8 * f.r.IntN(wordLen/8)
		w.remote, w.word = f.to.target(wordAt+at), f.r.Uint64()
		binary.NativeEndian.PutUint64(f.words[at:], w.word)
		w.list, w.flags, n = nil, w.flags&^queue.Inline, 0
	}
	f.expect = append(f.expect, func(c queue.CQE) error {
		if c.Status != queue.Success || c.WRID != wrid || c.Op != w.op.Completed() || c.ByteLen != uint32(n) {
			return fmt.Errorf("completion %+v (%v) of request %d, %d bytes", c, reason.Detail{Reason: c.Reason, Expected: c.Expected, Found: c.Found}, wrid, n)
		}
		if result != nil {
			return result()
		}
		return nil
	})
	if w.op == queue.WriteImm || w.op == queue.Send || w.op == queue.SendImm {
		f.arrival(w, data)
	}
}

func (f *flow) fenceIf(w *wqe, need bool) {
	if need {
		w.flags |= queue.Fence
	}
	if w.flags&queue.Fence != 0 {
		f.hazard, f.results = false, 0
	}
}

// slot returns unused memory for the result of a READ or atomic.
func (f *flow) slot(w *wqe, n int) {
	f.fenceIf(w, f.results == slots)
	at := resultAt + f.results*slotLen
	f.results++
	cut := f.r.IntN(n + 1)
	w.list = []memory.SGE{f.from.sge(at, cut), f.from.sge(at+cut, n-cut)}
	w.flags &^= queue.Inline
}

// atomic changes the words in a strict order, so that each result shows that all earlier atomics
// were executed once and in order.
func (f *flow) atomic(w *wqe) func() error {
	f.slot(w, 8)
	got := f.from.mem[w.list[0].Addr-f.from.mr.Base:][:8]
	at := 8 * f.r.IntN(wordLen/8)
	w.atomic = f.to.word(wordAt + at)
	word := f.words[at : at+8]
	old := binary.NativeEndian.Uint64(word)
	next := old
	if w.op == queue.FetchAdd {
		w.atomic.CompareAdd = f.r.Uint64()
		next += w.atomic.CompareAdd
	} else {
		w.atomic.CompareAdd, w.atomic.Swap = old-uint64(f.r.IntN(2)), f.r.Uint64()
		if w.atomic.CompareAdd == old {
			next = w.atomic.Swap
		}
	}
	binary.NativeEndian.PutUint64(word, next)
	want := binary.NativeEndian.AppendUint64(nil, old)
	return func() error { return same("atomic", got, want) }
}

// arrival records the expected receive completion of a message.
func (f *flow) arrival(w *wqe, data []byte) {
	i := f.sends
	f.sends++
	imm, op := w.imm, w.op
	f.receive = append(f.receive, func(c queue.CQE) error {
		want := queue.CQE{WRID: uint64(i), Op: queue.WCRecv, ByteLen: uint32(len(data)), QPN: f.to.port.QPN, PortNum: 1}
		if op != queue.Send {
			want.Flags, want.ImmInv = queue.WCImm, imm
		}
		if op == queue.WriteImm {
			want.Op = queue.WCRecvRDMAImm
		}
		if c != want {
			return fmt.Errorf("receive completion %+v, want %+v", c, want)
		}
		if op == queue.WriteImm {
			return nil
		}
		at := recvAt + i%slots*slotLen
		return same("SEND", f.to.mem[at:at+len(data)], data)
	})
}

func same(what string, got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s of %d bytes: wrong bytes", what, len(want))
	}
	return nil
}

// check verifies new completions and reposts used receives.
func (f *flow) check() error {
	for ; f.checked < len(f.from.send.list); f.checked++ {
		if f.checked >= len(f.expect) {
			return fmt.Errorf("completion %d of %d requests", f.checked, len(f.expect))
		}
		if err := f.expect[f.checked](f.from.send.list[f.checked]); err != nil {
			return err
		}
	}
	for ; f.received < len(f.to.recv.list); f.received++ {
		if f.received >= len(f.receive) {
			return fmt.Errorf("receive completion %d of %d messages", f.received, len(f.receive))
		}
		if err := f.receive[f.received](f.to.recv.list[f.received]); err != nil {
			return err
		}
	}
	return nil
}

func (f *flow) postRecvs() {
	for f.recvs < f.received+slots && f.r.IntN(4) != 0 {
		f.to.postRecv(uint64(f.recvs), f.to.sge(recvAt+f.recvs%slots*slotLen, 1000), f.to.sge(recvAt+f.recvs%slots*slotLen+1000, maxLen-1000))
		f.recvs++
	}
}

// XRC has the first list only.
var modelOps, annexOps = []queue.Op{queue.Write, queue.WriteImm, queue.Send, queue.SendImm, queue.Read, queue.CompareSwap, queue.FetchAdd},
	[]queue.Op{queue.Flush, queue.AtomicWrite}

// A variant is a kind of connection that the model runs.
type variant struct {
	trains bool
	fast   bool // packets in the middle of a message take the fast path
	xrc    bool // node 0 is the initiator, and node 1 the target
}

// runModel returns how many packets took the fast path.
func runModel(t *testing.T, seed uint64, v variant) int {
	r := rand.New(rand.NewPCG(seed, 1))
	// Of four seeds, two have ends that both know selective acknowledges, and one has only one such
	// end.
	var c [2]Config
	for i := range c {
		c[i].Control = congestion.Kind(r.IntN(5))
		if !v.xrc && (seed%4 > 1 || seed%4 == 1 && i == 1) {
			c[i].Store = NewStore([]int{DefaultStore, 64 << 10, 2 << 10}[r.IntN(3)])
		}
	}
	w := newPairWith(t, c, func(i int, p *machine.Port) {
		if v.xrc {
			asXRC(i, p)
		}
		p.Attr.PathMTU = testMTU
		p.Window = 1000 + r.IntN(20000)
		p.Attr.SQPSN, p.Attr.RQPSN = psn.New(uint32(0x1000000-r.IntN(200))), 0
		p.Attr.MaxRdAtomic = uint8(1 + r.IntN(4))
	})
	w.keep, w.fastPath = false, v.fast
	if v.trains {
		w.longest = func() int { return r.IntN(9) }
	}
	for i, n := range w.n {
		n.port.Attr.RQPSN = w.n[1-i].port.Attr.SQPSN
		for _, s := range []qp.State{qp.Reset, qp.Init, qp.RTR, qp.RTS} {
			n.to(0, s)
		}
		for k := range srcLen + targetLen + wordLen {
			n.mem[k] = byte(r.Uint32())
		}
	}
	loss, dup, late := r.IntN(8), r.IntN(8), r.IntN(8)
	w.fate = func(int, int, *ib.Packet) (int, int) {
		c, l := 1, 0
		if r.IntN(100) < loss {
			c = 0
		}
		if r.IntN(100) < dup {
			c++
		}
		if r.IntN(100) < late {
			l = r.IntN(6)
		}
		return c, l
	}
	flows := [2]*flow{}
	for i := range flows {
		from, to := w.n[i], w.n[1-i]
		flows[i] = &flow{r: r, from: from, to: to, ops: modelOps, work: 60,
			target: bytes.Clone(to.mem[targetAt : targetAt+targetLen]), words: bytes.Clone(to.mem[wordAt : wordAt+wordLen])}
	}
	if v.xrc {
		flows[1].work = 0
	} else {
		for _, f := range flows {
			f.ops = slices.Concat(modelOps, annexOps)
		}
	}
	source := [2][]byte{bytes.Clone(w.n[0].mem[:srcLen]), bytes.Clone(w.n[1].mem[:srcLen])}
	for round := 0; flows[0].checked < flows[0].work || flows[1].checked < flows[1].work; round++ {
		if round > 100000 {
			t.Fatalf("seed %d: %d and %d done", seed, flows[0].checked, flows[1].checked)
		}
		moved := false
		for i, f := range flows {
			// Messages sometimes wait in the ring for receives, but never too many.
			for f.posted < f.work && f.from.port.SQ.Len() < 20 && f.sends < f.received+slots && r.IntN(3) != 0 {
				f.post(uint64(f.posted))
				moved = true
			}
			f.postRecvs()
			moved = w.take(i, 1+r.IntN(30)) > 0 || moved
			moved = w.deliver(i, 1+r.IntN(30)) > 0 || moved
			if err := f.check(); err != nil {
				t.Fatalf("seed %d, node %d: %v", seed, i, err)
			}
		}
		w.now += 1000
		if d := min(w.n[0].q.Deadline(), w.n[1].q.Deadline()); !moved && d != machine.Never {
			w.now = max(w.now, d)
		}
		for _, n := range w.n {
			if n.q.Deadline() <= w.now {
				n.q.Expire(w.now)
			}
		}
	}
	w.quiet() // the answer to a repeated request may still be owed
	for i, f := range flows {
		if err := f.check(); err != nil || f.received != f.sends {
			t.Fatalf("seed %d, node %d: %v; %d of %d messages received", seed, i, err, f.received, f.sends)
		}
		if !bytes.Equal(f.to.mem[targetAt:targetAt+targetLen], f.target) || !bytes.Equal(f.to.mem[wordAt:wordAt+wordLen], f.words) {
			t.Fatalf("seed %d: memory of node %d is not as in the model", seed, 1-i)
		}
		if !bytes.Equal(w.n[i].mem[:srcLen], source[i]) {
			t.Fatalf("seed %d: source memory of node %d changed", seed, i)
		}
		if q := w.n[i].q; q.req.recovery.loss.board != nil || q.resp.Holds() || c[i].Store != nil && c[i].Store.responder.Used() != 0 {
			t.Fatalf("seed %d: node %d holds packets though nothing is missing", seed, i)
		}
	}
	return w.taken
}

// runSeeds runs a model with each seed, 50 in short tests, up to the first failure.
func runSeeds(t *testing.T, seeds int, of func(seed int) variant) {
	t.Helper()
	if testing.Short() {
		seeds = 50
	}
	for seed := 0; seed < seeds && !t.Failed(); seed++ {
		runModel(t, uint64(seed), of(seed))
	}
}

// A failure names its seed, which replays it.
func TestModelRandomFaults(t *testing.T) {
	runSeeds(t, 800, func(int) variant { return variant{} })
}

// Trains that are lost, duplicated, delayed or split must have the effect of their packets.
func TestModelTrains(t *testing.T) {
	runSeeds(t, 400, func(int) variant { return variant{trains: true} })
}

// An extended reliable connection carries the same operations one way.
func TestModelXRC(t *testing.T) {
	runSeeds(t, 400, func(seed int) variant { return variant{trains: seed%2 == 1, xrc: true} })
}

// The fast path must have the same effect as the normal path, also with losses.
func TestModelFastPath(t *testing.T) {
	seeds, taken := 200, 0
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		taken += runModel(t, uint64(seed), variant{trains: seed%4 == 3, fast: true})
		if t.Failed() {
			return
		}
	}
	if taken < 10*seeds {
		t.Errorf("%d packets in %d runs took the fast path", taken, seeds)
	}
}
