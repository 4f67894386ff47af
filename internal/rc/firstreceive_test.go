package rc

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// newImpatient makes a pair whose first end gives up at the first RNR NAK and the first
// timeout, as programs do that leave rdma_conn_param empty. The other end can hold
// requests, whether or not the first one is of softrdma.
func newImpatient(t *testing.T, selective bool) *pair {
	c := [2]Config{{}, {Store: NewStore(DefaultStore)}}
	if selective {
		c[0].Store = NewStore(DefaultStore)
	}
	return newPairWith(t, c, func(_ int, p *machine.Port) {
		p.Attr.RNRRetry, p.Attr.RetryCnt, p.Attr.Timeout = 0, 0, 14
	})
}

func forEachPeer(t *testing.T, test func(t *testing.T, selective bool)) {
	t.Run("standard", func(t *testing.T) { test(t, false) })
	t.Run("selective", func(t *testing.T) { test(t, true) })
}

func TestFirstMessageWaitsForItsReceive(t *testing.T) {
	forEachPeer(t, func(t *testing.T, selective bool) {
		for _, longest := range []int{1, 4} {
			w := newImpatient(t, selective)
			a, b := w.n[0], w.n[1]
			w.longest = func() int { return longest }
			const n = 9*testMTU + 7
			fill(a.mem, 3)
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, testMTU)}, remote: b.target(2 * n)})
			a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, n)}})
			a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 2*testMTU)}, remote: b.target(3 * n)})
			w.runUntil(w.now + 40*time.Millisecond)
			if len(b.recv.list) != 0 || b.count(reason.NoReceive) != 0 {
				t.Fatalf("trains of %d: %d receives completed, %v", longest, len(b.recv.list), b.refused)
			}
			b.postRecv(1, b.sge(0, n))
			w.settle()
			w.wantStatuses(&a.send, queue.Success, queue.Success, queue.Success)
			w.wantStatuses(&b.recv, queue.Success)
			if !bytes.Equal(a.mem[:n], b.mem[:n]) || !bytes.Equal(a.mem[:2*testMTU], b.mem[3*n:][:2*testMTU]) {
				t.Errorf("trains of %d: wrong bytes", longest)
			}
			if got, want := b.traffic.Received, uint64(n+3*testMTU); got != want {
				t.Errorf("trains of %d: %d bytes counted, expected %d", longest, got, want)
			}
			w.holdsNothing()
		}
	})
}

func TestFirstMessageWithoutReceiveIsRefusedInTheEnd(t *testing.T) {
	forEachPeer(t, func(t *testing.T, selective bool) {
		w := newImpatient(t, selective)
		a, b := w.n[0], w.n[1]
		began := w.now
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 3*testMTU)}})
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 1)}, remote: b.target(0)})
		w.runUntil(began + 49*time.Millisecond)
		w.wantStatuses(&a.send)
		w.runUntil(began + 51*time.Millisecond)
		w.wantStatuses(&a.send, queue.RNRRetryExcErr, queue.WRFlushErr)
		w.holdsNothing()
	})
}

// Only the first message waits: a receiver that is too slow later says so at once.
func TestLaterMessageWithoutReceiveIsRefusedAtOnce(t *testing.T) {
	forEachPeer(t, func(t *testing.T, selective bool) {
		w := newImpatient(t, selective)
		a, b := w.n[0], w.n[1]
		b.postRecv(1, b.sge(0, 8))
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
		w.settle()
		began := w.now
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
		w.settle()
		w.wantStatuses(&a.send, queue.Success, queue.RNRRetryExcErr)
		if waited := w.now - began; waited > time.Millisecond {
			t.Errorf("refused after %v", waited)
		}
	})
}

// A connection that ends while its first message waits leaves nothing.
func TestFirstMessageThatWaitsEndsWithItsQueuePair(t *testing.T) {
	forEachPeer(t, func(t *testing.T, selective bool) {
		w := newImpatient(t, selective)
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 3*testMTU)}})
		w.quiet()
		if !b.q.resp.Holds() {
			t.Fatal("nothing is held")
		}
		b.to(w.now, qp.Err)
		if b.q.resp.Holds() || b.q.resp.Deadline() != machine.Never || b.q.store.responder.Used() != 0 {
			t.Error("something is held, or a timer is set")
		}
	})
}

// The first message may arrive behind a lost packet, and then find no receive.
func TestFirstMessageBehindALossWaitsForItsReceive(t *testing.T) {
	w := newImpatient(t, true)
	a, b := w.n[0], w.n[1]
	w.fate = drop(1, 0)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 2*testMTU)}})
	w.runUntil(w.now + 5*time.Millisecond)
	if b.count(reason.SequenceHeld) == 0 || b.count(reason.ReceiveAwaited) == 0 {
		t.Fatalf("refused %v", b.refused)
	}
	b.postRecv(1, b.sge(0, 2*testMTU))
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success)
	w.wantStatuses(&b.recv, queue.Success)
	w.holdsNothing()
}
