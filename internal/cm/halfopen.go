package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// Bounds of what a peer can make the passive side hold. A request costs its
// sender one datagram and this side a connection and whatever the program makes
// for it, so that each number that the peer chooses has a bound of this side's
// as well.
const (
	// maxHalfOpen bounds the connections between REQ and RTU, maxShare those of
	// one source (see sourceOf).
	maxHalfOpen = 1024
	maxShare    = 256

	// evictAge is for how long a REP must have gone unconfirmed before its
	// connection may be given up for another one. It is more than a round trip.
	evictAge = 250 * time.Millisecond

	// confirmTime bounds how long the RTU may take, and confirmWait how long one
	// wait of that is. A peer whose program needs longer says so by an MRA, as
	// Linux's does to the second REP; then maxDelay bounds each wait.
	confirmTime = 8 * time.Second
	confirmWait = 500 * time.Millisecond
	maxDelay    = 2 * time.Minute

	// maxResponse bounds the peer's response timeout, maxTimewait the time wait,
	// and shortTimewait that of a connection whose REP was never confirmed.
	maxResponse   = 20 * time.Second
	maxTimewait   = 10 * time.Second
	shortTimewait = time.Second
)

// halfOpen counts the connections between REQ and RTU.
type halfOpen struct {
	n       int
	sources map[netip.Addr]int

	// Those whose REP was sent, oldest first, chained by Conn.older and newer.
	oldest, newest *Conn
}

// sourceOf is what shares are counted by: the address; of IPv6 the /64, all of
// which one host may have, unless it is a link-local address.
func sourceOf(a netip.AddrPort) netip.Addr {
	s := home(a).Addr()
	if s.Is6() && !s.IsLinkLocalUnicast() {
		p, _ := s.Prefix(64) // no error: the length fits
		return p.Addr()
	}
	return s
}

// fits reports whether a listener can take one more request of a source, and
// makes room where replace is set.
func (m *Manager) fits(now time.Duration, l *Listener, source netip.Addr, replace bool) bool {
	h := &m.half
	if l.Backlog == 0 { // no limit
		return true
	}
	if l.waiting >= l.Backlog {
		return false
	}
	if h.sources[source] >= maxShare {
		return replace && m.evict(now, func(c *Conn) bool { return sourceOf(c.peer) == source })
	}
	if h.n >= maxHalfOpen {
		return replace && m.evict(now, func(*Conn) bool { return true })
	}
	return true
}

// evict gives up the oldest connection that matches and whose RTU is overdue,
// and reports whether there was one.
func (m *Manager) evict(now time.Duration, match func(*Conn) bool) bool {
	for c := m.half.oldest; c != nil && now-c.replied >= evictAge; c = c.newer {
		if match(c) {
			c.abandon(now, reason.Detail{Reason: reason.CMEvicted, Expected: uint64(evictAge.Milliseconds()), Found: uint64((now - c.replied).Milliseconds())})
			return true
		}
	}
	return false
}

// open counts a connection as half open.
func (h *halfOpen) open(c *Conn) {
	if h.sources == nil {
		h.sources = map[netip.Addr]int{}
	}
	h.n++
	h.sources[sourceOf(c.peer)]++
	c.half = true
}

// wait appends a connection to those whose REP was sent.
func (h *halfOpen) wait(now time.Duration, c *Conn) {
	c.replied = now
	if c.older = h.newest; c.older != nil {
		c.older.newer = c
	} else {
		h.oldest = c
	}
	h.newest = c
	c.unconfirmed = true
}

// leaveHalfOpen ends open and wait: the connection is established or over.
func (c *Conn) leaveHalfOpen() {
	if !c.half {
		return
	}
	h := &c.m.half
	c.half = false
	c.m.lot.retry = true
	h.n--
	s := sourceOf(c.peer)
	if h.sources[s]--; h.sources[s] == 0 {
		delete(h.sources, s)
	}
	if !c.unconfirmed {
		return
	}
	c.unconfirmed = false
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		h.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		h.newest = c.older
	}
	c.older, c.newer = nil, nil
}

// proved notes that the peer knows this end's communication ID, which it was told
// by a message to its address.
func (c *Conn) proved() {
	if c.unproven {
		c.unproven = false
		c.m.lot.trust.put()
	}
}

// confirmation is how long a REP waits for the RTU before it is repeated, and how
// often it is: what the peer asked for, within confirmTime.
func (c *Conn) confirmation() (wait time.Duration, retries uint8) {
	wait = min(c.timeout, confirmWait)
	return wait, uint8(min(time.Duration(c.retries), confirmTime/wait-1))
}

// abandon gives up a connection whose REP was sent, and tells both ends.
func (c *Conn) abandon(now time.Duration, d reason.Detail) {
	if c.unproven {
		c.m.lot.suspect(now)
	}
	c.sendREJ(mad.RejectTimeout, c.m.infoFor(mad.RejectTimeout), nil)
	c.enterTimewait(now)
	c.m.config.Refuse(d)
	c.tell(Event{Kind: EventRepTimeout, Detail: d})
}
