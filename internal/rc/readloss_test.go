package rc

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// newDistant connects two queue pairs with selective acknowledges over a path whose round trip, one
// millisecond, both have measured.
func newDistant(t testing.TB) *pair {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	for _, op := range []queue.Op{queue.Write, queue.Read} {
		a.post(wqe{op: op, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
		w.roundTrip(1 << 20)
	}
	w.wantStatuses(&a.send, 0, 0)
	return w
}

// roundTrip sends from node 0 and answers from node 1 with the given number of packets.
func (w *pair) roundTrip(most int) {
	w.take(0, 1<<20)
	w.now += time.Millisecond
	w.deliver(1, 1<<20)
	w.take(1, most)
	w.deliver(0, 1<<20)
}

// postReads posts n READs of the given number of packets.
func (w *pair) postReads(n, packets int) {
	a, b := w.n[0], w.n[1]
	for i := range n {
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(i*packets*testMTU, packets*testMTU)}, remote: b.target(0)})
	}
}

// expire advances the time to a node's next timer.
func (w *pair) expire(i int) {
	w.now = w.n[i].q.Deadline()
	w.n[i].q.Expire(w.now)
}

// asked returns how many different READs node 1 received.
func (w *pair) asked() int {
	all := map[uint64]bool{}
	for _, p := range w.sent[1] {
		if p.Opcode == ib.RCReadRequest {
			all[uint64(p.PSN)] = true
		}
	}
	return len(all)
}

// A READ that lacks only a lost response frees its slot for another READ, also if its request
// waited behind a lost one.
func TestSelectiveReadsContinueWhileAResponseIsMissing(t *testing.T) {
	w := newDistant(t)             // allows four READs at a time
	w.fate = drop(1, w.count[1]+1) // the second request
	w.postReads(8, 4)
	w.roundTrip(1 << 20)
	if w.asked() != 1+4 || w.n[1].count(reason.SequenceHeld) != 2 {
		t.Fatalf("%d READs requested, refused %v", w.asked(), w.n[1].refused)
	}
	w.expire(0)
	w.fate = drop(0, w.count[0]+1) // the second READ's first response, after the acknowledge
	w.roundTrip(1 << 20)
	w.take(0, 1<<20)
	if n := w.asked(); n != 1+8 {
		t.Errorf("%d READs requested after a missing answer, expected 9", n)
	}
	w.settle()
	w.wantStatuses(&w.n[0].send, make([]queue.Status, 10)...)
	w.holdsNothing()
}

// A partial response shows that the READ request has arrived, so the missing rest can be requested.
func TestSelectiveMissingResponseIsRequestedBeforeTheReadEnds(t *testing.T) {
	w := newDistant(t)
	w.fate = drop(0, w.count[0]+3)
	w.postReads(1, 16)
	w.roundTrip(8)
	w.expire(0)
	w.take(0, 10)
	again := w.sent[1][len(w.sent[1])-1]
	if again.Opcode != ib.RCReadRequest || again.RETH.Length != testMTU {
		t.Errorf("asked again with %v for %d bytes, expected %d", again.Opcode, again.RETH.Length, testMTU)
	}
	w.settle()
	if n := w.n[0].count(reason.ResponseStale); n != 0 {
		t.Errorf("%d answers came twice", n)
	}
	w.wantStatuses(&w.n[0].send, 0, 0, 0)
}

// Copies of READ requests are answered once, in any order. They are sent as soon as any packet of a
// READ was lost.
func TestSelectiveCopiesOfReadRequestsAreAnsweredOnce(t *testing.T) {
	w := newDistant(t)
	w.fate = drop(0, w.count[0]+1)
	w.postReads(1, 8)
	w.settle()
	for _, late := range []int{0, 1, 2} {
		sent, answers, stale := w.count[1], len(w.sent[0]), w.n[0].count(reason.ResponseStale)
		w.fate = func(to, i int, _ *ib.Packet) (int, int) {
			if to == 1 && (i-sent)%2 == 1 {
				return 1, late
			}
			return 1, 0
		}
		w.postReads(4, 8)
		w.settle()
		copies := 0
		for _, p := range w.sent[1][sent:] {
			if p.Copy {
				copies++
			}
		}
		if copies != 8 {
			t.Errorf("%d READ requests with the mark of a copy, expected 8", copies)
		}
		responses := 0
		for _, p := range w.sent[0][answers:] {
			if p.Opcode.Info().Kind == ib.KindReadResponse {
				responses++
			}
		}
		if responses != 32 || w.n[0].count(reason.ResponseStale) != stale {
			t.Errorf("copies late by %d: %d responses, expected 32", late, responses)
		}
	}
}

// A repeated request must be answered again, because the earlier response may be lost.
func TestSelectiveRepeatedReadRequestIsNoCopy(t *testing.T) {
	w := newDistant(t)
	w.fate = drop(0, w.count[0]+1)
	w.postReads(1, 8)
	w.settle()
	answered := w.count[0]
	w.fate = func(to, i int, _ *ib.Packet) (int, int) {
		if to == 0 && i < answered+60 {
			return 0, 0
		}
		return 1, 0
	}
	w.postReads(1, 8)
	w.settle()
	w.wantStatuses(&w.n[0].send, 0, 0, 0, 0)
}

// After all READs complete, the buffer holds the data of the last one posted, whichever response
// was lost.
func TestSelectiveReadsIntoOneBufferEndInOrder(t *testing.T) {
	for lost := range 12 {
		w := newDistant(t)
		a, b := w.n[0], w.n[1]
		fill(b.mem, 3)
		w.fate = drop(0, w.count[0]+lost)
		for i := range 3 {
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(i*testMTU, 4*testMTU)}, remote: b.target(100 * i)})
		}
		w.settle()
		w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
		want := bytes.Clone(b.mem[:testMTU])
		want = append(append(want, b.mem[100:100+testMTU]...), b.mem[200:200+4*testMTU]...)
		if !bytes.Equal(a.mem[:len(want)], want) {
			t.Errorf("answer %d lost: an earlier READ has the last word", lost)
		}
		w.holdsNothing()
	}
}

// The same with scattered buffers that overlap in places, packets that cross entry boundaries, and
// atomics.
func TestSelectiveReadsIntoPiecesEndInOrder(t *testing.T) {
	play := func(lost ...int) []byte {
		w := newDistant(t)
		a, b := w.n[0], w.n[1]
		fill(b.mem, 3)
		w.fate = drop(0, lost...)
		for i := range 2 {
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(500, 300), a.sge(50+90*i, 333), a.sge(1000, 0), a.sge(900, 200)}, remote: b.target(300 * i)})
			a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(555+i, 3), a.sge(960, 5)}, atomic: b.word(0)})
		}
		w.settle()
		w.wantStatuses(&a.send, make([]queue.Status, 6)...)
		w.holdsNothing()
		return a.mem[:2000]
	}
	want, first := play(), newDistant(t).count[0]
	for i := range 10 {
		for k := range 10 {
			if !bytes.Equal(play(first+i, first+k), want) {
				t.Errorf("answers %d and %d lost: other bytes", i, k)
			}
		}
	}
}

// The responder refuses the rest of a READ whose first responses were lost. Nothing repeats
// them: the responder is in the error state.
func TestRefusalInsideReadWithLossesEndsIt(t *testing.T) {
	for name, w := range map[string]*pair{"go back N": newPair(t, nil), "selective": newSelective(t, nil)} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			a, b := w.n[0], w.n[1]
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
			w.settle()
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
			a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8*testMTU)}, remote: b.target(0)})
			w.take(0, 10)
			w.deliver(1, 10)
			w.take(1, 4)
			if err := b.port.Memory.Deregister(b.mr); err != nil {
				t.Fatal(err)
			}
			w.take(1, 10)
			w.wire[0] = w.wire[0][2:]
			w.settle()
			w.wantStatuses(&a.send, queue.Success, queue.Success, queue.RemAccessErr)
		})
	}
}
