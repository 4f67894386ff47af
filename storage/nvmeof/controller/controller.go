package controller

import (
	"slices"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// Version is the version of NVMe that controllers report: 1.4.
const Version = 0x00010400

const (
	readyTimeout = 15 // CAP.TO, half seconds
	// keepAliveUnit is the granularity of keep-alive timeouts, in units of 100 ms.
	keepAliveUnit = 10
	errorEntries  = 16 // of the error log
	maxChanged    = 1024
)

// A Controller connects one host to a subsystem. It lives as long as its admin queue.
type Controller struct {
	subs   *Subsystems
	sub    *Subsystem
	id     uint16
	host   string
	hostID [16]byte
	queues map[uint16]*Queue
	guests map[*Queue]struct{} // for I/O, whose hosts are not authenticated

	cc   fabrics.Configuration
	csts uint32

	keepAlive time.Duration // 0: none
	deadline  time.Time

	asked   uint32 // events that the host asks for
	masked  uint32 // events that were raised and whose log page was not read
	pending []uint32
	held    []uint16 // command identifiers of event requests
	changed []uint32 // namespaces of the log page of changed ones
	notices notices

	errors []logpage.ErrorEntry // the newest last
	count  uint64               // of errors
}

// ready reports whether the host has enabled the controller.
func (c *Controller) ready() bool {
	return c.csts&(fabrics.StatusReady|fabrics.StatusFatal) == fabrics.StatusReady
}

// configure sets the property CC.
func (c *Controller) configure(cc fabrics.Configuration) {
	old := c.cc
	c.cc = cc
	switch {
	case cc.Enabled() && !old.Enabled():
		submission, completion := cc.EntrySizes()
		if submission != 6 || completion != 4 || cc.CommandSet() != 0 || cc.PageSize() != 0 || cc.Arbitration() != 0 {
			c.csts = fabrics.StatusFatal
			return
		}
		c.csts = fabrics.StatusReady
	case !cc.Enabled() && old.Enabled():
		c.reset()
	}
	if cc.Shutdown() && !old.Shutdown() {
		c.csts = c.csts&^fabrics.StatusReady | fabrics.StatusShutdownComplete
	}
	if !cc.Shutdown() && old.Shutdown() {
		c.csts &^= fabrics.StatusShutdownComplete
	}
}

// reset is a controller level reset: features have their defaults again, and the host does not wait for
// its commands any more.
func (c *Controller) reset() {
	c.csts = 0
	c.asked, c.masked, c.pending, c.changed = 0, 0, nil, nil
	c.notices = notices{count: c.notices.count}
	c.unregister()
	if q := c.queues[0]; q != nil {
		for _, id := range c.held {
			delete(q.inFlight, uint32(id))
		}
	}
	c.held = nil
}

// alive restarts the keep-alive timer.
func (c *Controller) alive(now time.Time) {
	if c.keepAlive > 0 {
		c.deadline = now.Add(c.keepAlive)
	}
}

// setKeepAlive sets the timeout in milliseconds, which is rounded up to the granularity.
func (c *Controller) setKeepAlive(now time.Time, ms uint32) {
	const unit = keepAliveUnit * 100
	c.keepAlive = time.Duration((uint64(ms)+unit-1)/unit*unit) * time.Millisecond
	c.alive(now)
}

// raise completes an event request of the host, or keeps the event until there is one. The same event
// is raised again only after the host has read its log page.
func (c *Controller) raise(ask, event uint32) {
	if c.asked&ask == 0 || c.masked&ask != 0 {
		return
	}
	c.masked |= ask
	c.pending = append(c.pending, event)
	c.tell()
}

// tell completes event requests as long as there are events.
func (c *Controller) tell() {
	q := c.queues[0]
	for q != nil && len(c.pending) > 0 && len(c.held) > 0 {
		done := q.completion(c.held[0], status.Success, uint64(c.pending[0]))
		c.held, c.pending = c.held[1:], c.pending[1:]
		c.subs.calls = append(c.subs.calls, func() { q.completed(done) })
	}
}

// namespaceChanged notes a namespace for the log page of changed ones.
func (c *Controller) namespaceChanged(id uint32) {
	if !slices.Contains(c.changed, id) && len(c.changed) <= maxChanged {
		c.changed = append(c.changed, id)
	}
	c.raise(logpage.AskNamespaceChanged, logpage.EventNamespaceChanged)
}

// note adds a refused command to the error log.
func (c *Controller) note(q *Queue, cmd *capsule.Command, r *Refusal) {
	c.count++
	if len(c.errors) == errorEntries {
		c.errors = c.errors[:copy(c.errors, c.errors[1:])]
	}
	c.errors = append(c.errors, logpage.ErrorEntry{
		Count: c.count, Queue: q.number, Command: cmd.ID, Status: r.Status, Location: 0xffff, LBA: cmd.LBA(), NSID: cmd.NSID,
	})
}
