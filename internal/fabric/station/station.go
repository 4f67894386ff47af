// Package station is the port of a host on an Ethernet fabric: queues for what the host sends, with
// the same selection and reaction to pauses as a switch's, and a buffer for what arrives, whose
// priorities it pauses when the host takes nothing.
//
// The package does no I/O and reads no clock. A port belongs to one goroutine at a time.
package station

import (
	"cmp"
	"math/bits"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// DefaultQueue is the number of bytes that a priority of a host's port holds before Send refuses.
const DefaultQueue = 64 << 10

// DefaultBuffer is the number of bytes that wait for a host before its port pauses the priority.
const DefaultBuffer = 64 << 10

// A Config is what a host's port is made with. Ports can share one.
type Config struct {
	Link  *dcb.PortConfig
	Queue int // bytes of each priority that wait for the link before Send refuses; DefaultQueue if 0

	// Buffer is the bytes of each priority that wait for the host. Beyond it a lossless priority is
	// paused and takes Headroom bytes more; frames of others are dropped. DefaultBuffer if 0.
	Buffer, Headroom int

	// Foreign makes the port deliver frames to other hosts as well.
	Foreign bool
}

// A Port is the port of a host.
type Port struct {
	dcb.Port
	config  *Config
	env     dcb.Env
	pool    *dcb.Pool
	address dcb.Address
	held    uint8                          // priorities with frames that the host did not take
	waiting *[ethernet.Priorities]dcb.List // nil before the first
	dropped *[reasons]uint64               // nil before the first
}

const (
	firstReason = reason.EthernetLength
	reasons     = reason.EthernetForeign - firstReason + 1
)

// number is the number of the port, for the Env.
const number = 1

// New returns a port whose link is down.
func New(c *Config, env dcb.Env, pool *dcb.Pool, address dcb.Address) *Port {
	p := &Port{config: c, env: env, pool: pool, address: address}
	p.Init(c.Link, pool, address)
	return p
}

// Address returns the port's MAC address.
func (p *Port) Address() dcb.Address { return p.address }

// Dropped returns the number of frames that the port has dropped for a reason.
func (p *Port) Dropped(r reason.Reason) uint64 {
	if i := r - firstReason; i < reasons && p.dropped != nil {
		return p.dropped[i]
	}
	return 0
}

// SetLink brings the link up or takes it down. What waits for a link that goes down is dropped.
func (p *Port) SetLink(now dcb.Time, up bool) {
	p.Port.SetLink(now, up)
	if !up {
		p.drain(now, 0xff, func(i uint8) reason.Detail { return dcb.LinkDown(number, i) })
	}
	p.schedule()
}

func (p *Port) schedule() { p.env.Schedule(number, p.Deadline()) }

func (p *Port) drain(now dcb.Time, priorities uint8, why func(priority uint8) reason.Detail) {
	for set := priorities; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		for f := p.Drain(i); f != nil; f = p.Drain(i) {
			p.drop(now, f, why(i))
		}
	}
}

func (p *Port) drop(now dcb.Time, f *dcb.Frame, d reason.Detail) {
	if p.dropped == nil {
		p.dropped = new([reasons]uint64)
	}
	p.dropped[d.Reason-firstReason]++
	p.Count(f.Priority&7).Dropped++
	p.env.Dropped(now, number, f, d)
	p.pool.Put(f)
}

// Room reports whether Send takes a frame of a priority.
func (p *Port) Room(priority uint8) bool { return p.Queue(priority).Bytes < p.limit() }

func (p *Port) limit() int { return cmp.Or(p.config.Queue, DefaultQueue) }

// Send sends a frame, on the priority Frame.Priority. It reports whether it takes the frame, which
// the port then owns. It refuses a frame whose queue is full: Room says when it takes one again.
func (p *Port) Send(now dcb.Time, f *dcb.Frame) bool {
	if !p.Room(f.Priority) {
		return false
	}
	f.In, f.Due = 0, now
	switch i := f.Priority; {
	case !p.Up():
		p.drop(now, f, dcb.LinkDown(number, i))
	case int(f.Len) > p.MTU()+ethernet.TagLen:
		p.drop(now, f, reason.Detail{Reason: reason.EthernetLong, Expected: uint64(p.MTU()), Found: uint64(f.Len)})
	case p.Storms()&(1<<i) != 0:
		p.drop(now, f, p.StormDetail(now, i))
	default:
		if p.Push(now, f) {
			p.schedule()
		}
	}
	return true
}

// Discard drops a frame that Send has refused, for a host that does not wait.
func (p *Port) Discard(now dcb.Time, f *dcb.Frame) {
	p.drop(now, f, reason.Detail{Reason: reason.EthernetQueueFull, Expected: uint64(p.limit()), Found: uint64(p.Waiting(f.Priority) + int(f.Len))})
}

// Run does what is due.
func (p *Port) Run(now dcb.Time) {
	if storms := p.Watch(now); storms != 0 {
		p.drain(now, storms, func(i uint8) reason.Detail { return p.StormDetail(now, i) })
	}
	if f := p.Next(now); f != nil {
		p.env.Transmit(now, number, f)
	}
	p.schedule()
}

// Receive takes a frame whose last byte arrives now. The port owns it. Frames of IP and RoCE v1
// have the priority of their tag, or that of their DSCP.
func (p *Port) Receive(now dcb.Time, f *dcb.Frame) {
	if f.Op != 0 {
		p.Paused(now, f)
		p.pool.Put(f)
		p.schedule()
		return
	}
	if f.Priority = f.DSCP >> 3 & 7; f.Tagged {
		f.Priority = f.PCP & 7
	}
	i := f.Priority
	p.Count(i).Received.Add(f)
	switch {
	case !p.Up():
		p.drop(now, f, dcb.LinkDown(number, i))
	case int(f.Len) > p.MTU()+ethernet.TagLen:
		p.drop(now, f, reason.Detail{Reason: reason.EthernetLong, Expected: uint64(p.MTU()), Found: uint64(f.Len)})
	case f.Dst != p.address && !f.Dst.Group() && !p.config.Foreign:
		p.drop(now, f, reason.Detail{Reason: reason.EthernetForeign, Expected: uint64(p.address), Found: uint64(f.Dst)})
	case p.held&(1<<i) == 0 && p.env.Deliver(now, number, f):
	default:
		p.hold(now, f)
	}
}

// hold keeps a frame that the host does not take.
func (p *Port) hold(now dcb.Time, f *dcb.Frame) {
	i := f.Priority
	limit := p.config.Buffer
	if limit == 0 {
		limit = DefaultBuffer
	}
	if p.waiting == nil {
		p.waiting = new([ethernet.Priorities]dcb.List)
	}
	n := p.waiting[i].Bytes + int(f.Len)
	switch {
	case n <= limit:
	case !p.lossless(i):
		p.drop(now, f, reason.Detail{Reason: reason.EthernetQueueFull, Expected: uint64(limit), Found: uint64(n)})
		return
	case n > limit+p.config.Headroom:
		p.drop(now, f, reason.Detail{Reason: reason.EthernetHeadroom, Expected: uint64(p.config.Headroom), Found: uint64(n - limit)})
		return
	case p.Stopped()&(1<<i) == 0:
		p.Stop(i)
		p.schedule()
	}
	p.held |= 1 << i
	p.waiting[i].Push(f)
}

func (p *Port) lossless(priority uint8) bool {
	c := p.Config()
	return c.Pause != dcb.NoPause && c.Lossless&(1<<priority) != 0
}

// Resume offers frames again that Deliver did not take.
func (p *Port) Resume(now dcb.Time) {
	for set := p.held; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		for l := &p.waiting[i]; l.Frames > 0; {
			f := l.Pop()
			if !p.env.Deliver(now, number, f) {
				l.Return(f)
				break
			}
		}
		if p.waiting[i].Frames == 0 {
			p.held &^= 1 << i
			if p.Stopped()&(1<<i) != 0 {
				p.Go(i)
				p.schedule()
			}
		}
	}
}

// Held returns the bytes of a priority that wait for the host.
func (p *Port) Held(priority uint8) int {
	if p.waiting == nil {
		return 0
	}
	return p.waiting[priority].Bytes
}
