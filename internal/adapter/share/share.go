// Package share limits what the queue pairs of a lane have in flight to one peer together.
// machine.Share has the count that machines ask before they send. This package keeps the
// queue pairs that it refused in line, gives them their turns as room appears, and notices
// when what is in flight makes no progress. It takes no lock; the holder of the lane's lock
// calls it.
package share

import (
	"slices"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// stallTime is how long the bytes in flight may stay the same before they count as
// lost. A peer's socket does not hold them for so long, and queue pairs whose peer does
// not answer must not block the others.
const stallTime = 30 * time.Millisecond

// A Table has a lane's shares, one for each peer with connected queue pairs.
type Table struct {
	tasks *schedule.Queue
	clock func() time.Duration
	peers map[qp.Endpoint]*peer
}

// A peer is a machine.Share with the queue pairs that wait for room in it.
type peer struct {
	machine.Share
	at    qp.Endpoint
	users int
	line  schedule.FIFO[*Member]

	// While members wait, the watcher is due in the lane's heap at stallAt or earlier.
	// stallAt is stallTime after the last progress.
	watcher *Member
	stallAt time.Duration
}

// A Member is a queue pair's part. It is in no share until Join.
type Member struct {
	port  *machine.Port
	entry *schedule.Entry
	peer  *peer

	waiting  bool // in line
	admitted bool // and now it is its turn
}

// Init prepares the table of the lane whose tasks these are.
func (t *Table) Init(tasks *schedule.Queue, clock func() time.Duration) {
	*t = Table{tasks: tasks, clock: clock, peers: make(map[qp.Endpoint]*peer)}
}

// Init prepares the part of a queue pair.
func (m *Member) Init(port *machine.Port, entry *schedule.Entry) {
	*m = Member{port: port, entry: entry}
}

// Join puts a member under the limit of what may be in flight to a peer, in bytes. The
// limit is that of the peer's first member.
func (t *Table) Join(m *Member, at qp.Endpoint, limit int64) {
	p := t.peers[at]
	if p == nil {
		p = &peer{Share: machine.Share{Limit: limit}, at: at}
		t.peers[at] = p
	}
	p.users++
	m.peer, m.port.Share = p, &p.Share
}

// Leave ends Join, if there was one.
func (t *Table) Leave(m *Member) {
	p := m.peer
	if p == nil {
		return
	}
	if m.waiting {
		p.line.Remove(slices.Index(p.line.Waiting(), m))
		m.waiting = false
	}
	p.Count(m.port, 0)
	m.peer, m.port.Share, m.port.Waits = nil, nil, false
	if p.watcher == m {
		t.watch(p)
	}
	if p.users--; p.users == 0 {
		delete(t.peers, p.at)
	}
	t.admit(p)
}

// Others returns the bytes that the other members have in flight to the peer.
func (m *Member) Others() int64 {
	if m.peer == nil {
		return 0
	}
	return m.peer.Others(m.port)
}

// Count notes what a member has in flight after its machine was called, and lets the next
// waiting one try if there may be room.
func (t *Table) Count(m *Member, flight machine.InFlightReporter) {
	p := m.peer
	if p == nil {
		return
	}
	less := p.Count(m.port, flight.InFlight())
	if less && p.watcher != nil {
		p.stallAt = t.clock() + stallTime
	}
	switch {
	case m.port.Waits:
		m.port.Waits = false
		if !m.waiting {
			m.waiting = true
			p.line.Push(m)
		}
		if p.watcher == nil {
			p.stallAt = t.clock() + stallTime
			t.watch(p)
		}
	case less || m.admitted:
		t.admit(p)
	}
	m.admitted = false
}

// admit lets the member that has waited longest try again. The next one follows when this
// one had its turn and found room.
func (t *Table) admit(p *peer) {
	if p.line.Len() == 0 {
		return
	}
	m := p.line.Pop()
	m.waiting, m.admitted = false, true
	t.tasks.Push(m.entry)
}

// watch makes the first waiting member the watcher for stalls.
func (t *Table) watch(p *peer) {
	p.watcher = nil
	if p.line.Len() > 0 {
		p.watcher = p.line.Waiting()[0]
		t.tasks.Lower(p.watcher.entry, p.stallAt)
	}
}

// Deadline is when Expire is due for the member, schedule.Never if it watches no share.
func (m *Member) Deadline() time.Duration {
	if p := m.peer; p != nil && p.watcher == m {
		return p.stallAt
	}
	return schedule.Never
}

// Expire acts on a stall of the share that the member watches.
func (t *Table) Expire(now time.Duration, m *Member) {
	p := m.peer
	if p == nil || p.watcher != m {
		return
	}
	if p.stallAt <= now {
		p.Forget()
		p.stallAt = now + stallTime
		t.admit(p)
	}
	t.watch(p)
}
