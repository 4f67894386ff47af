package hostpath

import (
	"slices"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

const (
	// receiveBudget bounds the messages of one Receive.
	receiveBudget = 64

	// referLimit is the longest payload that a message refers to.
	referLimit = 256 << 10

	// longCopy is the length of payloads that take longer to copy than it takes to send what
	// is ready.
	longCopy = 16 << 10

	// privateLimit is the longest payload that is copied before it is looked at. It is
	// the longest that a machine reads itself (management datagrams, selective
	// acknowledges); longer ones are only copied to their place.
	privateLimit = 512

	// linkEvery is the interval at which the link is asked while messages come, until there
	// was none for linkQuiet looks. Asking a socket takes several times as long as looking
	// into a ring. It is a time and not a number of looks: a peer that is a little slower
	// would otherwise make this end ask the socket in each round trip, and this end the
	// peer.
	linkEvery = 20 * time.Microsecond
	linkQuiet = 4096

	// coolAfter is the number of empty looks after which a ring is no longer polled. Its
	// bell brings it back.
	coolAfter = 1 << 16
)

// A ring brings the messages of one lane of a peer.
type ring struct {
	*hostmem.Receiver
	path  *Path
	from  int
	quiet uint // looks since the last message
}

// Idle reports whether there is no path.
func (l *Lane) Idle() bool { return len(l.paths) == 0 }

// Receive takes messages from the peers' rings, and reports whether there were some.
func (l *Lane) Receive(now time.Duration) (some bool) {
	if len(l.full) > 0 {
		l.serveFull(now)
	}
	if l.slept.Load() {
		l.slept.Store(false)
		l.answer()
		l.empty = linkQuiet // it may be the link that ended the sleep
	}
	cold := false
	for _, r := range l.polled {
		n := 0
		if l.Bells == nil {
			r.Disarm()
		}
		for n < receiveBudget && l.next(r) && !l.sendsFirst() {
			l.take(now, r)
			n++
		}
		r.show()
		if n > 0 {
			some, r.quiet = true, 0
		} else if r.quiet++; r.quiet > coolAfter || r.path.broken {
			cold = true
		}
	}
	if some {
		l.empty = 0
		return true
	}
	l.empty++
	if cold {
		l.cool()
	}
	if l.Bells == nil { // simulated time: a peer's message is an event
		return !l.arm()
	}
	return false
}

// AskLink reports whether the lane should poll its link after a Receive. A packet in the link
// waits for linkEvery at most, and ends a sleep.
func (l *Lane) AskLink(now time.Duration) bool {
	if l.Bells == nil {
		return true
	}
	due := now-l.asked >= linkEvery
	if due {
		l.asked = now
		l.answer() // rings that are not polled
	}
	return due || l.empty > linkQuiet
}

// answer polls the rings whose bells rang. While there is a sleeper it leaves the bells
// alone: they end the sleep, and the next Receive answers them.
func (l *Lane) answer() {
	if l.Bells == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sleeping {
		return
	}
	l.Bells.Rung(func(owner any) {
		for _, p := range l.paths {
			if p.Owner != owner || p.broken {
				continue
			}
			for _, r := range p.rings {
				l.warm(r)
			}
		}
	})
}

// warm polls a ring. The caller has mu.
func (l *Lane) warm(r *ring) {
	if slices.Contains(l.polled, r) {
		return
	}
	r.quiet = 0
	if l.sleeping {
		r.Arm() // which fails if the peer has sent already: who adds a path wakes the sleeper
	} else {
		r.Disarm()
	}
	l.polled = append(l.polled, r)
}

// cool stops polling rings that have brought nothing for a while, and arms them. It also ends polling
// those of broken paths, whose contents would keep the lane awake.
func (l *Lane) cool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled = slices.DeleteFunc(l.polled, func(r *ring) bool {
		return r.path.broken || l.Bells != nil && r.quiet > coolAfter && r.Arm()
	})
}

// next reads the next message of a ring, and reports whether there is one.
func (l *Lane) next(r *ring) bool {
	if r.path.broken {
		return false
	}
	ok, fault := r.Next(&l.message)
	if fault.Reason != reason.None {
		l.end(r.path, fault)
		return false
	}
	return ok
}

// sendsFirst reports whether the message that next has read stays in the ring until the lane
// has sent: its payload is long, and tasks are ready. Where two peers read from each other,
// both copy at the same time then, and not one after the other.
func (l *Lane) sendsFirst() bool {
	if !l.message.Refers || l.message.Len < longCopy || l.Tasks.Ready() == 0 {
		return false
	}
	if l.postponed && l.flushed {
		l.postponed = false
		return false
	}
	if !l.postponed {
		l.postponed, l.flushed = true, false
	}
	return true
}

// take delivers the message that next has read.
func (l *Lane) take(now time.Duration, r *ring) {
	m := &l.message
	payload, ok := l.payload(r, m)
	switch {
	case ok && m.Kind == hostmem.Packet:
		l.Port.Packet(now, r.path, m, m.Header, payload)
	case ok:
		l.Port.Message(now, r.path, m, payload)
	case m.Kind == hostmem.Message:
		l.Port.Lost(now, r.path, m)
	}
	if r.Retire() {
		r.path.Far.Ring(r.from)
	}
}

// show tells the peer which messages were taken.
func (r *ring) show() {
	if r.Show() {
		r.path.Far.Ring(r.from)
	}
}

// end ends a path once.
func (l *Lane) end(p *Path, why reason.Detail) {
	l.Port.Refused(why)
	if p.broken {
		return
	}
	p.broken = true
	l.Port.Broken(p, why)
}

// payload returns the payload of a message, and false if it is lost. What a machine reads is
// a private copy: the peer may change its own memory, and the rings', at any time.
func (l *Lane) payload(r *ring, m *hostmem.Received) ([]byte, bool) {
	b := m.Payload
	if m.Refers {
		var ok bool
		if b, ok = l.referred(r, m); !ok {
			return nil, false
		}
	}
	if m.Len > 0 && (m.Len <= privateLimit || m.Kind == hostmem.Packet) {
		p := l.private(m.Len)
		copy(p, b)
		if m.Lent != nil && !r.Valid() {
			return nil, l.revoked(m)
		}
		b, m.Lent = p, nil
	}
	return b, true
}

// revoked refuses a message whose payload its sender has taken back. It returns false.
func (l *Lane) revoked(m *hostmem.Received) bool {
	l.Port.Refused(reason.Detail{Reason: reason.HostRevoked, Found: uint64(m.Len)})
	return false
}

// referred returns the payload that a message refers to.
func (l *Lane) referred(r *ring, m *hostmem.Received) ([]byte, bool) {
	if !r.Begin() {
		return nil, l.revoked(m)
	}
	if m.Len > referLimit {
		l.Port.Refused(reason.Detail{Reason: reason.HostReference, Expected: referLimit, Found: uint64(m.Len)})
		return nil, false
	}
	b := r.path.Far.Segment(m.Ref.Segment)
	n, at := uint64(m.Len), m.Ref.Offset
	if at > uint64(len(b)) || n > uint64(len(b))-at {
		l.Port.Refused(reason.Detail{Reason: reason.HostReference, Expected: uint64(len(b)), Found: at + n})
		return nil, false
	}
	m.Lent = r.Receiver
	return b[at : at+n : at+n], true
}

// private returns n bytes of this process. They are used again for the next message.
func (l *Lane) private(n int) []byte {
	if len(l.copied) < n {
		size := privateLimit
		if n > size {
			size = referLimit
		}
		l.copied = make([]byte, size)
	}
	return l.copied[:n]
}
