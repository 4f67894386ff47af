package adapter

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A poll of a busy completion queue receives every time and returns at the first completion. Timers
// of other queue pairs must still be served.
func TestPollThatAlwaysReceivesServesOtherTimers(t *testing.T) {
	now := time.Duration(1)
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true, Clock: func() time.Duration { return now }}, qp.UD, 64)
	other, err := e.dev.CreateCQ(16, nil)
	e.check(err)
	rc := e.create(qp.RC, other)
	e.send(rc, 1, queue.SendWQE{Op: queue.Send})
	if n := e.link.count(); n != 1 {
		t.Fatalf("sent %d packets, expected 1", n)
	}
	e.link.give, e.link.from = e.datagram()
	const polls = 20 * overdue
	for range polls {
		e.recv()
		now += 200 * time.Millisecond / polls
		e.cq.Progress(true)
		if e.cq.Ring().Len() == 0 {
			t.Fatal("no completion: the test wants one with each poll")
		}
		e.cq.Ring().Release(e.cq.Ring().Producer())
	}
	// The timer is 8 µs and is served as often as overdue permits.
	if n := e.link.count(); n < 4 {
		t.Fatalf("sent %d packets in 200 ms of silence from the peer, expected several repetitions", n)
	}
}

// When a process was not scheduled, its deadlines have passed and the answers are in the link. They
// must be read before a timer fires.
func TestDeadlineWaitsForReceivedPackets(t *testing.T) {
	now := time.Duration(1)
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true, Clock: func() time.Duration { return now }}, qp.UD, 64)
	rc := e.create(qp.RC, e.cq)
	e.send(rc, 1, queue.SendWQE{Op: queue.Send})
	round := func() {
		e.dev.lanes[0].Lock()
		e.dev.lanes[0].Progress()
		e.dev.lanes[0].Unlock()
	}
	round()
	now += time.Second
	e.link.give, e.link.from = e.datagram()
	for range 10 {
		round()
	}
	if n := e.link.count(); n != 1 {
		t.Fatalf("sent %d packets, expected no repetition while there are packets to look at", n)
	}
	e.link.give = nil
	round()
	if n := e.link.count(); n != 2 {
		t.Fatalf("sent %d packets, expected a repetition now", n)
	}
}

// A timed is a machine that records when it was called.
type timed struct {
	machine.Machine
	machine.Receiver
	received, sent time.Duration
}

func (m *timed) Receive(now time.Duration, in *machine.In) {
	m.received = now
	m.Receiver.Receive(now, in)
}
func (m *timed) Next(now time.Duration, out *machine.Out) bool {
	m.sent = now
	return m.Machine.Next(now, out)
}

// A process may lose its processor at any moment. If the clock were read before the packet arrives,
// measured round trips would be shorter than the path.
func TestReceiveReadsTheClockAfterThePacketArrived(t *testing.T) {
	for name, round := range map[string]func(e *end){
		"progress": func(e *end) { e.dev.lanes[0].Progress() }, "poll": func(e *end) { e.dev.lanes[0].Poll(true) },
	} {
		now := time.Hour
		e := newEnd(t, "192.0.2.1:4791", Config{Manual: true, Clock: func() time.Duration { return now }}, qp.UD, 64)
		e.recv()
		m := &timed{Machine: e.qp.begin(now), Receiver: e.qp.can.Receiver}
		e.qp.m, e.qp.can.Receiver = m, m
		e.link.give, e.link.from = e.datagram()
		e.link.spend = func() { now += time.Millisecond }
		e.dev.lanes[0].tasks.Push(&e.qp.entry) // so that this poll sends; otherwise the next one would
		round(e)
		if m.received != now || m.sent != now {
			t.Errorf("%s: the last packet came at %v, its machine was told %v, and that it sends at %v", name, now, m.received, m.sent)
		}
	}
}

// The same for requests that others post while the lane is held.
func TestPollThatAlwaysReceivesServesDoorbells(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 64)
	uc := e.create(qp.UC, e.cq)
	e.link.give, e.link.from = e.datagram()
	e.leave(uc, 1, queue.SendWQE{Op: queue.Send})
	for range 3 {
		e.recv()
		e.cq.Progress(true)
		e.cq.Ring().Release(e.cq.Ring().Producer())
	}
	if n := e.link.count(); n != 1 {
		t.Fatalf("sent %d packets, expected the one posted", n)
	}
}

// A request posted before the queue shrinks completes in the queue. If its completion would not
// fit, the queue keeps its depth and does not overflow.
func TestResizeOfCQCountsPostedRequests(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 16)
	uc := e.create(qp.UC, e.cq)
	e.leave(uc, 2, queue.SendWQE{Op: queue.Send, Flags: queue.Signaled})
	if err := e.cq.Resize(1); err == nil {
		t.Fatalf("shrunk to 1 for 2 completions, of which it has %d", e.cq.Ring().Len())
	}
	if n := e.cq.Ring().Len(); n != 2 || e.cq.Err() != nil {
		t.Fatalf("%d completions, %v", n, e.cq.Err())
	}
}

// Without polls and arrivals the lane must still act on the overflow.
func TestOverflowFailsQPsWithoutPolling(t *testing.T) {
	for _, spin := range []time.Duration{0, time.Hour} {
		e := newEnd(t, "192.0.2.1:4791", Config{Spin: spin}, qp.UC, 1)
		for spin == 0 && e.link.waits.Load() == 0 {
			time.Sleep(time.Millisecond) // until the lane sleeps
		}
		e.send(e.qp, 8, queue.SendWQE{Op: queue.Send, Flags: queue.Signaled})
		if v := e.next(machine.EventQPFatal); v.Element != e.qp || v.Detail.Reason != reason.CQOverflow {
			t.Fatalf("event %+v", v)
		}
		if s := e.qp.Query().State; s != qp.Err {
			t.Fatalf("state %v", s)
		}
		if !errors.Is(e.cq.Err(), ErrOverflow) {
			t.Fatalf("completion queue: %v", e.cq.Err())
		}
	}
}

// If the link fails, its users must not wait forever.
func TestLinkThatCannotWaitFailsQPs(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{}, qp.RC, 16)
	e.recv()
	e.link.mu.Lock()
	e.link.broken = true
	e.link.mu.Unlock()
	e.link.Wake()
	e.next(machine.EventDeviceFatal)
	for end := time.Now().Add(20 * time.Second); e.cq.Ring().Len() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the receive was not flushed")
		}
	}
	if c := e.cq.Ring().At(e.cq.Ring().Consumer()); c.Status != queue.WRFlushErr {
		t.Fatalf("status %v, expected WR_FLUSH_ERR", c.Status)
	}
	e.check(e.dev.Close())
}

func TestClosedDeviceLeavesLinkAlone(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{}, qp.RC, 16)
	ud := e.create(qp.UD, e.cq)
	e.check(ud.AttachMulticast(netip.MustParseAddr("239.1.1.1")))
	e.send(e.qp, 1, queue.SendWQE{Op: queue.Send}) // unanswered: its timer runs
	e.check(e.dev.Close())
	n := e.link.count()
	e.send(e.qp, 1, queue.SendWQE{Op: queue.Send})
	for range 5 {
		time.Sleep(time.Millisecond)
		e.cq.Progress(true)
		e.dev.Progress()
	}
	for name, err := range map[string]error{
		"modify":    e.qp.Modify(qp.MaskState, &qp.Attr{State: qp.Err}),
		"attach":    ud.AttachMulticast(netip.MustParseAddr("239.1.1.2")),
		"create QP": second(e.pd.CreateQP(&QPConfig{Type: qp.UD, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: 1, SendSGE: 1, RecvDepth: 1, RecvSGE: 1})),
		"register":  second(e.pd.Register(make([]byte, 8), 0, 0)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: expected %q, found %v", name, ErrClosed, err)
		}
	}
	e.check(ud.Destroy())
	e.check(e.qp.Destroy())
	if e.link.late != 0 || e.link.count() != n {
		t.Fatalf("%d calls of a closed link, %d packets more", e.link.late, e.link.count()-n)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAttachAndDetachLeavesNothing(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 16)
	g := netip.MustParseAddr("239.1.1.1")
	for range 10 {
		e.check(e.qp.AttachMulticast(g))
		e.check(e.qp.DetachMulticast(g))
	}
	if n, m := len(e.qp.groups), len(e.dev.packets[0].groups); n != 0 || m != 0 {
		t.Fatalf("%d groups left with the queue pair, %d with the lane", n, m)
	}
}

// This test interleaves posting, polling, sleeping and waking. Every posted request must be sent
// without further calls.
func TestPostedRequestIsSentWhoeverHoldsTheLane(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{}, qp.UC, 1<<12)
	qps := []*QP{e.qp, e.create(qp.UC, e.cq), e.create(qp.UC, e.cq)}
	stop := make(chan struct{})
	var pollers, posters sync.WaitGroup
	for range 2 {
		pollers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				e.cq.Progress(true)
				if i%1000 == 999 {
					e.cq.Arm(false)
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	const each = 2000
	for _, q := range qps {
		posters.Go(func() {
			for range each {
				for q.SQ.Full() {
					time.Sleep(time.Microsecond)
				}
				e.send(q, 1, queue.SendWQE{Op: queue.Send})
			}
		})
	}
	posters.Wait()
	close(stop)
	pollers.Wait()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		left := 0
		for _, q := range qps {
			left += q.SQ.Len()
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests still posted, with nobody to send them", left)
		}
	}
}
