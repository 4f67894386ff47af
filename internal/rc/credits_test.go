package rc

import (
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A receiver that posts a few receives at a time gets only as many messages and refuses none.
func TestSenderStaysWithinPeerCredits(t *testing.T) {
	for _, x := range []wqe{{op: queue.Send}, {op: queue.WriteImm}, {op: queue.Send, flags: queue.Inline, inline: make([]byte, 48)}} {
		w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.Timeout = 16 })
		a, b := w.n[0], w.n[1]
		const posted, rounds = 8, 10
		refill := func(n int) {
			for range n {
				b.postRecv(0, b.sge(0, testMTU))
			}
		}
		refill(posted)
		w.sendOne(x)
		w.quiet() // the acknowledge carries the remaining credits
		refill(1)
		done := 1
		for range rounds {
			for a.port.SQ.Len() < 30 {
				a.post(x)
			}
			w.now += maxTrialWait
			w.take(0, 100)
			if n := int(a.q.req.credits.inFlight); n > posted {
				t.Fatalf("%v: %d messages in flight, %d receives posted", x.op, n, posted)
			}
			w.deliver(1, 100)
			n := len(b.recv.list) - done
			if n == 0 {
				t.Fatalf("%v: nothing came", x.op)
			}
			refill(n)
			done += n
			w.take(1, 100)
			w.deliver(0, 100)
		}
		if done < posted*rounds/2 || b.count(reason.NoReceive) != 0 {
			t.Errorf("%v: %d messages in %d rounds of %d receives, refused %v", x.op, done, rounds, posted, b.refused)
		}
	}
}

// sendOne posts a message from node 0.
func (w *pair) sendOne(x wqe) {
	x.remote = w.n[1].target(0)
	w.n[0].post(x)
}

// If the peer has no receive posted, the sender sends one message at a time as a request for
// credits (IBTA 9.7.7.2.5). Operations that need no receive do not wait.
func TestSenderWithoutCreditsSendsOneMessage(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	w.postWrites(1)
	w.quiet()
	for range 5 {
		a.post(wqe{op: queue.Send})
	}
	if n := w.take(0, 100); n != 0 || a.q.Deadline() > w.now+maxTrialWait {
		t.Errorf("%d messages left at once, deadline %v at %v", n, a.q.Deadline(), w.now)
	}
	w.now += maxTrialWait
	a.q.Expire(w.now)
	if n := w.take(0, 100); n != 1 {
		t.Errorf("%d messages left, expected 1", n)
	}
	for range 5 {
		b.postRecv(0)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0, 0)
	if a.q.req.credits.inFlight != 0 {
		t.Errorf("%d messages count as in flight", a.q.req.credits.inFlight)
	}
	for range 3 {
		w.postWrites(1)
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	}
	if n := w.take(0, 100); n != 6 {
		t.Errorf("%d of 6 packets left", n)
	}
}

// On a long path messages stay in flight so long that receives are posted before they arrive.
func TestSenderOnALongPathDoesNotWaitForCredits(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	for range 8 {
		b.postRecv(0)
	}
	a.post(wqe{op: queue.Send})
	w.take(0, 1)
	w.now += 2 * creditPath
	w.settle()
	for range 30 {
		a.post(wqe{op: queue.Send})
	}
	if n := w.take(0, 100); n != 30 {
		t.Errorf("%d of 30 messages left", n)
	}
}

// Standard peers get no credits, and neither do peers of a shared receive queue.
func TestAcknowledgeCarriesCredits(t *testing.T) {
	for _, c := range []struct {
		name              string
		selective, shared bool
		want              ib.Syndrome
	}{
		{"softrdma", true, false, ib.Credits(3)},
		{"softrdma with a shared queue", true, true, ib.ACKNoCredits},
		{"standard", false, false, ib.ACKNoCredits},
	} {
		tune := func(_ int, p *machine.Port) { p.RQ.(*receives).shared = c.shared }
		w := newPair(t, tune)
		if c.selective {
			w = newSelective(t, tune)
		}
		for range 4 {
			w.n[1].postRecv(0)
		}
		w.n[0].post(wqe{op: queue.Send})
		w.take(0, 1)
		w.deliver(1, 1)
		if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != c.want {
			t.Errorf("%s: answers %+v, expected syndrome %#x", c.name, got, uint8(c.want))
		}
	}
}

// A receiver announces receives that it posts after an acknowledge without credits. If it posts none
// for long, it stops checking.
func TestReceiverAnnouncesReceivesPostedLate(t *testing.T) {
	w := newSelective(t, nil)
	a, b := w.n[0], w.n[1]
	b.postRecv(0)
	a.post(wqe{op: queue.Send})
	w.quiet()
	if a.q.req.credits.limit != 0 || b.q.Deadline() > w.now+20*time.Microsecond {
		t.Fatalf("%d credits, deadline %v at %v", a.q.req.credits.limit, b.q.Deadline(), w.now)
	}
	looks := 0
	for b.q.Deadline() != machine.Never {
		w.now = b.q.Deadline()
		b.q.Expire(w.now)
		looks++
	}
	if looks > 10 || w.take(1, 10) != 0 {
		t.Errorf("looked %d times, or announced nothing", looks)
	}
	b.postRecv(0)
	w.now += maxTrialWait
	a.post(wqe{op: queue.Send})
	w.quiet()
	for range 20 {
		b.postRecv(0)
	}
	w.now = b.q.Deadline()
	b.q.Expire(w.now)
	w.quiet()
	if a.q.req.credits.limit != 16 || b.q.Deadline() != machine.Never {
		t.Errorf("%d credits, deadline %v", a.q.req.credits.limit, b.q.Deadline())
	}
}

// A refusal costs little if the peer's RNR timer is short, so the sender does not wait for credits.
func TestSenderSendsWithoutCreditsToPeerWithShortRNRTimer(t *testing.T) {
	for timer, want := range map[uint8]int{1: 4, 12: 0} {
		w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.MinRNRTimer = timer })
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Send}) // is refused
		w.quiet()
		w.refuseFirst(1)
		b.postRecv(0)
		w.now += ib.RNRTimer(timer)
		a.q.Expire(w.now)
		w.quiet()
		w.wantStatuses(&a.send, 0)
		for range 4 {
			a.post(wqe{op: queue.Send})
		}
		if n := w.take(0, 10); n != want {
			t.Errorf("timer %v: %d messages left at once, expected %d", ib.RNRTimer(timer), n, want)
		}
	}
}

// Two ends that send messages in turn and keep 32 receives posted request an acknowledge for
// credits about once in 20 messages.
func TestPingPongRequestsFewAcknowledges(t *testing.T) {
	w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.Timeout, p.SQSigAll = 16, false })
	const posted, rounds = 32, 210
	for _, n := range w.n {
		for range posted {
			n.postRecv(0, n.sge(0, 64))
		}
	}
	send := func(from int, flags queue.Flags) {
		a, b := w.n[from], w.n[1-from]
		a.post(wqe{op: queue.Send, flags: queue.Inline | flags, inline: make([]byte, 8)})
		w.quiet()
		b.postRecv(0, b.sge(0, 64))
	}
	for range 2 { // measures the round trip, and brings the first credits
		send(0, queue.Signaled)
		send(1, queue.Signaled)
	}
	requests := 0
	w.fate = func(_, _ int, p *ib.Packet) (int, int) {
		if p.AckReq {
			requests++
		}
		return 1, 0
	}
	for range rounds {
		send(0, 0)
		send(1, 0)
	}
	if requests == 0 || requests > 2*rounds/15 {
		t.Errorf("%d acknowledges requested for %d messages", requests, 2*rounds)
	}
	for i, n := range w.n {
		if len(n.recv.list) != rounds+2 || n.port.Attr.State != qp.RTS {
			t.Errorf("node %d received %d messages, state %v", i, len(n.recv.list), n.port.Attr.State)
		}
	}
}
