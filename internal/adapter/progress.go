package adapter

import (
	"errors"
	"syscall"
	"time"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

// The stages of a packet, and which lock is held in each.
//
// Out:
//
//	post      caller       fills the send ring (package queue): one producer, no lock
//	ring      caller       takes the lane, or leaves the queue pair with the doorbell
//	schedule  lane's lock  Transmit gives each ready task its turn (package schedule)
//	Next      lane's lock  the machine fills headers and slices of registered memory
//	Send      lane's lock  the flow's route adds the packet to a batch, or hands it to a
//	                       lane of this process, whose lock it tries, or to a peer
//	flush     lane's lock  one system call sends the batch; payloads are free again
//
// In:
//
//	Receive   lane's lock  one system call brings a batch; its memory is the link's
//	packet    lane's lock  the checks of IBTA 9.6; a packet for another lane is
//	                       left with that lane's doorbell
//	deliver   lane's lock  the machine copies the payload to its place
//	Push      CQ's lock    the completion, and the event it was armed for
//	Unlock    lane's lock  stores to other processes are made before it is given up
//
// A lane's lock is taken by posters and pollers (TryLock), and by those who change or
// destroy objects (Lock). Whoever holds one tries at most one other lane's (take), and
// never waits for it.

const (
	// transmitBudget bounds the packets of one round, so that acknowledges and new
	// requests keep each other going. A task that has nothing to send counts for a
	// packet.
	transmitBudget = drive.ReceiveBudget * link.MaxPackets

	// maxBurst is the number of packets that a queue pair sends in one turn.
	maxBurst = 2 * link.MaxPackets

	// overdue is the number of rounds for which deadlines wait while the link always
	// has more to receive. The answer that a deadline waits for may be in the link, and
	// a needless retransmission makes an overload worse. It counts rounds and not time:
	// a process that was not running finds its deadlines passed and the answers in the
	// link. So many rounds receive a receive buffer's worth of small packets.
	overdue = 512
)

// The ports of a driver: lanes of packets, and lanes of streams.
var (
	_ drive.Port = (*lane)(nil)
	_ drive.Port = streamPort{}
)

// A streamPort is a lane of streams. The streams receive in place of packets.
type streamPort struct{ *lane }

// Receive implements drive.Port.
func (p streamPort) Receive(now time.Duration) (after time.Duration, ok bool) {
	if p.closed {
		return now, false
	}
	p.gather.PolledAgain()
	p.drained = !p.streams.Receive(now)
	return now, !p.drained
}

// Next implements drive.Port.
func (p streamPort) Next() time.Duration {
	if !p.closed && p.streams.Pending() {
		return 0
	}
	return p.lane.Next()
}

// Receive implements drive.Port.
func (l *lane) Receive(now time.Duration) (after time.Duration, ok bool) {
	if l.closed {
		return now, false
	}
	l.gather.PolledAgain()
	some := false
	if !l.host.Idle() {
		l.endBindings() // peers that lost references ask again
		some = l.host.Receive(now)
		l.endRun()
		if !l.host.AskLink(now) {
			l.drained = !some
			return now, some
		}
	}
	l.rx.Sparse = l.dev.headed.Load() == 0 && l.watch == nil
	ok, err := l.network.link.Receive(&l.rx)
	if l.drained = err != nil || !ok; l.drained {
		return now, some
	}
	now = l.dev.clock()
	l.Received(len(l.rx.Data))
	l.receive(now, &l.rx)
	return now, true
}

// Act implements drive.Port.
func (l *lane) Act(now time.Duration) bool {
	if l.closed {
		return false
	}
	l.handleReports(now)
	if l.rounds++; l.drained || l.rounds > overdue {
		l.rounds = 0
		l.tasks.Expire(now)
	}
	if l.overflows.Swap(false) {
		l.failOverflowed(now)
	}
	l.network.resume()
	return l.Transmit(now)
}

// Next implements drive.Port.
func (l *lane) Next() time.Duration {
	switch {
	case l.closed:
		return machine.Never
	case l.tasks.Ready() > 0 || l.reports.Pending() || l.overflows.Load():
		return 0
	}
	return l.tasks.NextDue()
}

// Overdue implements drive.Port.
func (l *lane) Overdue(now time.Duration) bool { return l.tasks.Overdue(now) }

// Asked implements drive.Port: for a READ or an atomic.
func (l *lane) Asked() bool { return l.asked }

// Release implements drive.Port.
func (l *lane) Release() { l.writeBack() }

// Failed implements drive.Port: the port ends, not the process. A waiter for a
// completion gets a flushed one.
func (l *lane) Failed(err error) {
	d := reason.Detail{Reason: reason.WaitFailed, Expected: 1}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
	}
	l.dev.Raise(machine.EventDeviceFatal, nil, d)
	for _, q := range l.qps {
		q.fail(l.dev.clock(), d)
	}
}

// Transmit implements drive.Port: it lets the ready tasks send in turn, and reports
// whether there were any.
func (l *lane) Transmit(now time.Duration) bool {
	l.asked = false
	if l.closed || l.tasks.Ready() == 0 {
		return false
	}
	l.gather.Sent()
	for budget := transmitBudget; budget > 0; {
		e := l.tasks.Pop()
		if e == nil {
			break
		}
		l.writeBack() // the task may acknowledge what was stored
		n, more := e.Task().Next(now)
		if more {
			l.tasks.Push(e)
		}
		budget -= max(n, 1)
	}
	l.network.flush()
	for i, q := range l.sent {
		q.can.Sender.Sent()
		l.tasks.Lower(&q.entry, q.m.Deadline())
		l.sent[i] = nil
	}
	l.sent = l.sent[:0]
	l.process.release()
	l.host.Flush()
	return true
}
