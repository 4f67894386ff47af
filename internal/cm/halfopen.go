package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// Limits of the state that a peer can create on the passive side. A request costs
// its sender one datagram, and this side a connection and the resources that the
// program allocates. So each value that the peer chooses is limited here as well.
const (
	// maxHalfOpen limits the connections between REQ and RTU, and maxShare those of
	// one source (see sourceOf).
	maxHalfOpen = 1024
	maxShare    = 256

	// evictAge is how long a REP must be unconfirmed before its connection may be
	// dropped in favour of another one. It is more than a round trip.
	evictAge = 250 * time.Millisecond

	// confirmTime limits the total time until the RTU, and confirmWait the time between two
	// REPs. A peer whose program needs longer says so by an MRA, as Linux does after the
	// second REP; then maxDelay limits each wait.
	confirmTime = 8 * time.Second
	confirmWait = 500 * time.Millisecond
	maxDelay    = 2 * time.Minute

	// maxResponse limits the peer's response timeout, maxTimewait the TimeWait
	// state, and shortTimewait the TimeWait state of a connection whose REP was
	// never confirmed.
	maxResponse   = 20 * time.Second
	maxTimewait   = 10 * time.Second
	shortTimewait = time.Second
)

// halfOpen counts the connections between REQ and RTU.
type halfOpen struct {
	n       int
	sources map[netip.AddrPort]int

	// Connections whose REP was sent, oldest first, linked by Conn.older and newer.
	oldest, newest *Conn
}

// sourceOf returns the key by which shares are counted: the IPv4 address; the /64
// of an IPv6 address, because one host may own all of it; the whole link-local
// address; or the LID.
func (s *site) sourceOf(a netip.AddrPort) netip.AddrPort {
	a = s.home(a)
	if s.port != nil {
		return a
	}
	ip := a.Addr()
	if ip.Is6() && !ip.IsLinkLocalUnicast() {
		p, _ := ip.Prefix(64) // no error: the length fits
		ip = p.Addr()
	}
	return netip.AddrPortFrom(ip, 0)
}

// fits reports whether a listener can take one more request from a source. With
// replace it makes room if necessary.
func (m *Manager) fits(now time.Duration, l *Listener, source netip.AddrPort, replace bool) bool {
	h := &m.half
	if l.Backlog == 0 { // no limit
		return true
	}
	if l.waiting >= l.Backlog {
		return false
	}
	if h.sources[source] >= maxShare {
		return replace && m.half.evict(now, func(c *Conn) bool { return m.sourceOf(c.peer()) == source })
	}
	if h.n >= maxHalfOpen {
		return replace && m.half.evict(now, func(*Conn) bool { return true })
	}
	return true
}

// evict drops the oldest matching connection whose RTU is overdue, and reports
// whether there was one.
func (h *halfOpen) evict(now time.Duration, match func(*Conn) bool) bool {
	for c := h.oldest; c != nil && now-c.replied >= evictAge; c = c.newer {
		if match(c) {
			c.abandon(now, reason.Detail{Reason: reason.CMEvicted, Expected: uint64(evictAge.Milliseconds()), Found: uint64((now - c.replied).Milliseconds())})
			return true
		}
	}
	return false
}

// open counts a connection as half-open.
func (h *halfOpen) open(c *Conn) {
	if h.sources == nil {
		h.sources = map[netip.AddrPort]int{}
	}
	h.n++
	h.sources[c.m.sourceOf(c.peer())]++
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

// leaveHalfOpen undoes open and wait: the connection is established or has ended.
func (c *Conn) leaveHalfOpen() {
	if !c.half {
		return
	}
	h := &c.m.half
	c.half = false
	c.m.screening.retry = true
	h.n--
	s := c.m.sourceOf(c.peer())
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

// proved records that the peer knows this end's communication ID, so it received the message
// that was sent to its address.
func (c *Conn) proved() {
	if c.unproven {
		c.unproven = false
		c.m.screening.trust.put()
	}
}

// confirmation returns how long to wait for the RTU before the REP is repeated, and how often
// to repeat it: the peer's values, limited by confirmTime.
func (c *Conn) confirmation() (wait time.Duration, retries uint8) {
	wait = min(c.timeout, confirmWait)
	return wait, uint8(min(time.Duration(c.retries), confirmTime/wait-1))
}

// abandon drops a connection whose REP was sent, and notifies both ends.
func (c *Conn) abandon(now time.Duration, d reason.Detail) {
	if c.unproven {
		c.m.screening.suspect(now)
	}
	c.sendREJ(mad.RejectTimeout, c.m.infoFor(mad.RejectTimeout), nil)
	c.enterTimewait(now)
	c.m.config.Refuse(d)
	c.tell(Event{Kind: EventRepTimeout, Detail: d})
}
