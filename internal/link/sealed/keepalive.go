package sealed

import (
	"time"
)

// Keepalives follow the last packet through a translator after firstKeepalive, then at intervals that double up to
// lastKeepalive, as RFC 3948 4 has it: translators keep UDP entries for 2 minutes or longer (RFC 4787 REQ-5), but many for
// 30 s. The first ones are for a peer that repeats packets to an address that the translator has just changed: it hears of
// the new one before its retries are used up.
const (
	firstKeepalive = 500 * time.Millisecond
	lastKeepalive  = 20 * time.Second
)

// beginKeepalives has the links keep the entry of the translator to a peer alive from now on. The first keepalive makes
// it, and shows the peer where to answer. The caller holds mu.
func (e *Endpoint) beginKeepalives(p *peer) {
	p.sent.Store(false)
	p.pause, p.due = firstKeepalive, e.clock()
	if e.keeper == nil && !e.closed {
		e.keeper = time.AfterFunc(lastKeepalive, e.tick)
	}
	e.remind()
}

// tick has a link send what is due.
func (e *Endpoint) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remind()
}

func (e *Endpoint) remind() {
	for _, l := range e.links {
		l.due.Store(true)
		l.over.Wake()
	}
}

// leave notes that a link is closed.
func (e *Endpoint) leave(l *Link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, x := range e.links {
		if x == l {
			e.links = append(e.links[:i:i], e.links[i+1:]...)
			break
		}
	}
	if e.closed = len(e.links) == 0; e.closed && e.keeper != nil {
		e.keeper.Stop()
	}
}

// busy notes that something is sent to a peer through a translator.
func (e *Endpoint) busy(p *peer) {
	if p.sent.Load() {
		return
	}
	p.sent.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.pause > firstKeepalive && e.keeper != nil && !e.closed {
		p.pause, p.due = firstKeepalive, e.clock().Add(firstKeepalive)
		e.keeper.Reset(firstKeepalive)
	}
}

// keepAlive sends the keepalives that are due.
func (l *Link) keepAlive() {
	l.due.Store(false)
	for _, p := range l.e.idle() {
		if w := p.way(p.out.Load().port); w.to.IsValid() {
			l.control(p, w.to, keepalive, 0)
		}
	}
}

// idle returns the peers to which a keepalive is due, and sets the timer for the next ones.
func (e *Endpoint) idle() (idle []*peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	next := now.Add(lastKeepalive)
	for _, p := range e.peers {
		if !p.inside.Load() || p.out.Load() == nil || !p.met(false) {
			continue
		}
		if p.sent.Swap(false) {
			p.pause, p.due = firstKeepalive, now.Add(firstKeepalive)
		} else if !now.Before(p.due) {
			idle = append(idle, p)
			p.pause = min(2*p.pause, lastKeepalive)
			p.due = now.Add(p.pause)
		}
		if p.due.Before(next) {
			next = p.due
		}
	}
	if e.keeper != nil && !e.closed {
		e.keeper.Reset(next.Sub(now))
	}
	return idle
}
