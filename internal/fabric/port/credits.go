package port

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// credits is InfiniBand's flow control (IBTA 7.9.4).
type credits struct {
	buffer *buffer
	lanes  []account
	on     bool // the link is up
}

// An account is what a lane has sent, received and granted.
type account struct {
	sent  ib.Blocks // FCTBS: blocks sent
	limit ib.Blocks // FCCL: the peer takes blocks up to this count

	received ib.Blocks // ABR: blocks that arrived
	told     ib.Blocks // the last limit granted

	refreshed time.Duration // when the last grant left
	heard     time.Duration // when the last grant came
}

func (c *credits) up(now time.Duration) {
	c.on, c.buffer.tell = true, 0
	for i := range c.lanes {
		c.lanes[i] = account{heard: now}
		c.buffer.tell |= 1 << i
	}
}

func (c *credits) down() { c.on, c.buffer.tell = false, 0 }

func (c *credits) room(vl, blocks int) bool {
	l := &c.lanes[vl]
	return l.limit.Sub(l.sent.Add(blocks)) <= ib.MaxCredit
}

func (c *credits) sent(vl, blocks int) { c.lanes[vl].sent = c.lanes[vl].sent.Add(blocks) }

func (c *credits) arrived(vl, blocks int) {
	c.lanes[vl].received = c.lanes[vl].received.Add(blocks)
}

func (c *credits) overrun(size, needed int) (reason.Detail, bool) {
	return reason.Detail{Reason: reason.FabricOverrun, Expected: uint64(size), Found: uint64(needed)}, true
}

func (c *credits) receive(now time.Duration, f *ib.FlowControl) {
	if int(f.VL) >= len(c.lanes) { // the peer has more lanes
		return
	}
	l := &c.lanes[f.VL]
	l.limit, l.heard = f.Limit, now
	if l.received != f.Sent { // packets were lost on the link: their credits are free again
		l.received = f.Sent
	}
	c.freed(int(f.VL))
}

// granted is the limit that the port can grant now.
func (c *credits) granted(vl int) ib.Blocks {
	return c.lanes[vl].received.Add(min(c.buffer.size-int(c.buffer.occupied[vl]), ib.MaxCredit))
}

// freed decides whether a lane's new limit is worth a link packet: once a quarter of the
// buffer is free that the peer does not know of, or when the peer has not enough for a
// longest packet left. So the peer never waits while there is room.
func (c *credits) freed(vl int) {
	l := &c.lanes[vl]
	more, left := c.granted(vl).Sub(l.told), l.told.Sub(l.received)
	if more == 0 || !c.on {
		return
	}
	// After packets were lost the new limit may be behind the old one, which left shows.
	if more >= c.buffer.size/4 || left < minBuffer || left > c.buffer.size {
		c.buffer.tell |= 1 << vl
	}
}

func (c *credits) next(now time.Duration) ib.FlowControl {
	vl := first(c.buffer.tell)
	c.buffer.tell &^= 1 << vl
	l := &c.lanes[vl]
	l.told, l.refreshed = c.granted(vl), now
	return ib.FlowControl{VL: uint8(vl), Sent: l.sent, Limit: l.told}
}

func (c *credits) deadline(every time.Duration, vls int) time.Duration {
	at := Never
	for i := range vls {
		at = min(at, c.lanes[i].refreshed+every)
	}
	return at
}

// watchdogPeriods is the time of the flow control update watchdog in refresh periods. IBTA
// 7.9.4 has 400,000 symbol times, and 65,536 for the refresh.
const watchdogPeriods = 6

func (c *credits) refresh(now, every time.Duration, vls int, watch bool) (silent uint16) {
	for i := range vls {
		l := &c.lanes[i]
		if l.refreshed+every <= now {
			c.buffer.tell |= 1 << i
		}
		if watch && now-l.heard >= watchdogPeriods*every {
			silent |= 1 << i
			l.heard = now
		}
	}
	return silent
}

func (c *credits) refreshAll(now time.Duration, vls int) {
	for i := range c.lanes {
		c.lanes[i].heard = now
	}
	if c.on {
		c.buffer.tell |= 1<<vls - 1
	}
}
