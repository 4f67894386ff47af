package dcb

import (
	"math/bits"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// A Mode is how a port asks its neighbor to pause.
type Mode uint8

// The modes.
const (
	NoPause   Mode = iota // it does not, and ignores pauses
	ByClass               // priority-based flow control (802.1Q clause 36)
	WholeLink             // 802.3x: all priorities at once (802.3 31B)
)

// String returns the mode's name.
func (m Mode) String() string { return [...]string{"none", "PFC", "802.3x"}[m] }

// A PortConfig is what a port is made with. Ports can share one.
type PortConfig struct {
	Speed Speed // 10 Mbit/s to 800 Gbit/s
	MTU   int   // bytes of the longest frame with its check sequence; DefaultMTU if 0

	Pause    Mode
	Lossless uint8  // priorities with pauses, bit i for priority i; WholeLink: those that may cause a pause
	Quanta   uint16 // that a pause lasts unless it ends before, and longer if two frames take longer; ethernet.MaxQuanta if 0
	Lasting  bool   // a pause lasts until the neighbor ends it, whatever its quanta, and is not repeated: the way between the two is no cable
	Response Time   // from the end of a frame that pauses to its effect (802.3 31B.3.7)

	// Selection is the classes of the priorities, and how they share the link. The zero value is one
	// class for all priorities, which are served in turn.
	Selection ethernet.ETS

	Watchdog Watchdog
}

// DefaultMTU is the length of the longest untagged frame of 802.3.
const DefaultMTU = 1518

// A Port is the part of a switch or a host that sends on a link, and pauses.
type Port struct {
	config   *PortConfig
	pool     *Pool
	address  Address
	perByte  Time
	up       bool
	held     bool  // see Hold
	ready    uint8 // priorities with frames
	lanes    [ethernet.Priorities]*lane
	busy     Time // until when the link carries what has left
	selector selector
	pauses   pauses
	stop     stop
	watch    watch
	holds    holds

	Control Control

	// Untold is the frames that have left for another process without their telemetry, for the port's
	// owner to count in.
	Untold uint64
}

// holds are how often and for how long a port was held.
type holds struct {
	count uint64
	total Time // of those that have ended
	since Time // when the present one began
}

// A lane is a priority of a port. It is there from the first frame or pause on, as most ports use
// few priorities.
type lane struct {
	Queue
	Counters
	until  Time // of a pause
	since  Time // when the pause began
	stuck  Time // since when the queue is blocked, for the watchdog
	storms Time // last pause of a storm
}

// Counters are what a port counts for a priority.
type Counters struct {
	Sent, Received Traffic
	PausesSent     uint64 // frames that pause the priority at the neighbor
	PausesReceived uint64 // frames that pause it or end its pause
	Paused         Time   // how long the neighbor has paused it, without a pause that lasts
	Marked         uint64 // frames with ECN's CE as they joined the queue
	Dropped        uint64
	Storms         uint64 // that the watchdog has found
	Peak           int    // greatest length of the queue in bytes
}

// A Control counts the frames of a port that pause.
type Control struct{ Sent, Received uint64 }

// A Traffic is frames and their bytes, with check sequences.
type Traffic struct{ Frames, Bytes uint64 }

// Add counts a frame.
func (t *Traffic) Add(f *Frame) {
	t.Frames++
	t.Bytes += uint64(f.Len)
}

// A Queue is the frames of a priority that wait for a port.
type Queue struct {
	List
	Cells int32 // see Frame.Cells
}

// lane returns a priority, which it makes if it is new.
func (p *Port) lane(i uint8) *lane {
	if p.lanes[i] == nil {
		p.lanes[i] = new(lane)
	}
	return p.lanes[i]
}

// Count returns the counters of a priority, for the port's owner to count in.
func (p *Port) Count(priority uint8) *Counters { return &p.lane(priority).Counters }

// Counters returns the counters of a priority.
func (p *Port) Counters(priority uint8) (c Counters) {
	if l := p.lanes[priority]; l != nil {
		c = l.Counters
	}
	return c
}

// Ready returns the priorities with frames, bit i for priority i.
func (p *Port) Ready() uint8 { return p.ready }

// Queue returns the queue of a priority.
func (p *Port) Queue(priority uint8) *Queue { return &p.lane(priority).Queue }

// Waiting returns the bytes in the queue of a priority.
func (p *Port) Waiting(priority uint8) int {
	if l := p.lanes[priority]; l != nil {
		return l.Bytes
	}
	return 0
}

// NewPort returns a port whose link is down.
func NewPort(c *PortConfig, pool *Pool, address Address) *Port {
	p := new(Port)
	p.Init(c, pool, address)
	return p
}

// Init makes p a port whose link is down.
func (p *Port) Init(c *PortConfig, pool *Pool, address Address) {
	*p = Port{config: c, pool: pool, address: address, perByte: c.Speed.PerByte()}
	p.selector.init(&c.Selection)
	p.stop.refresh, p.watch.next = Never, Never
}

// Config returns the configuration, which the caller does not change.
func (p *Port) Config() *PortConfig { return p.config }

// Configure changes the configuration.
func (p *Port) Configure(c *PortConfig) {
	p.config, p.perByte = c, c.Speed.PerByte()
	p.selector.init(&c.Selection)
	p.stop.configure(c)
}

// MTU returns the length of the longest frame that the port takes.
func (p *Port) MTU() int {
	if p.config.MTU == 0 {
		return DefaultMTU
	}
	return p.config.MTU
}

// PerByte returns the time of a byte on the link.
func (p *Port) PerByte() Time { return p.perByte }

// Up reports whether the link is up.
func (p *Port) Up() bool { return p.up }

// SetLink brings the link up or takes it down. Pauses of the old link end. A port whose link goes
// down keeps its queues: see Drain.
func (p *Port) SetLink(now Time, up bool) {
	if p.up == up {
		return
	}
	p.up, p.busy = up, now
	p.pauses.clear(p, now)
	p.stop.renew(p.config)
	p.watch = watch{next: Never}
}

// Hold makes the port send no frames but those that pause, or ends that: what is at the other end of the
// link takes no more now, and is no neighbor that pauses.
func (p *Port) Hold(now Time, on bool) {
	switch {
	case p.held == on:
		return
	case on:
		p.holds.count++
		p.holds.since = now
	default:
		p.holds.total += now - p.holds.since
	}
	p.held = on
}

// Holding returns for how long Hold has stopped the port now, 0 if it does not, how often it has done so,
// and for how long in total.
func (p *Port) Holding(now Time) (present Time, count uint64, total Time) {
	if p.held {
		present = now - p.holds.since
	}
	return present, p.holds.count, p.holds.total + present
}

// LinkDown is the reason for which frames are dropped at a port without a link.
func LinkDown(port int, priority uint8) reason.Detail {
	return reason.Detail{Reason: reason.EthernetLinkDown, Expected: uint64(port), Found: uint64(priority)}
}

// Push adds a frame to the queue of its priority. Frame.Due is when it may leave. It reports whether
// the port's Deadline may have changed: whether the frame is the first one of its queue.
func (p *Port) Push(now Time, f *Frame) bool {
	i := f.Priority
	q := p.lane(i)
	q.Push(f)
	q.Cells += f.Cells
	if q.Frames == 1 {
		p.ready |= 1 << i
		p.watch.waits(p, now, i)
	}
	q.Peak = max(q.Peak, q.Bytes)
	return q.Frames == 1
}

func (p *Port) pop(i uint8) *Frame {
	q := p.lanes[i]
	f := q.Pop()
	q.Cells -= f.Cells
	if q.Frames == 0 {
		p.ready &^= 1 << i
	}
	return f
}

// Drain removes and returns the next frame of a queue, nil if there is none.
func (p *Port) Drain(priority uint8) *Frame {
	if p.ready&(1<<priority) == 0 {
		return nil
	}
	f := p.pop(priority)
	if p.ready&(1<<priority) == 0 {
		p.watch.moved(p, priority)
	}
	return f
}

// Next returns the next frame that leaves now, nil if none does. Its first byte is on the link now.
func (p *Port) Next(now Time) *Frame {
	p.pauses.run(p, now)
	if !p.up || now < p.busy {
		return nil
	}
	if p.stop.refresh <= now {
		p.stop.repeat()
	}
	if p.stop.tell != 0 {
		f := p.stop.frame(p, now)
		p.busy = now + Time(WireLen(int(f.Len)))*p.perByte
		return f
	}
	can := p.due(now)
	if can == 0 || p.held {
		return nil
	}
	i := uint8(bits.TrailingZeros8(can))
	if can&(can-1) != 0 || p.selector.active != can {
		i = p.selector.choose(can)
	}
	f := p.pop(i)
	p.selector.sent(i, int(f.Len))
	p.watch.moved(p, i)
	p.lanes[i].Sent.Add(f)
	p.busy = now + Time(WireLen(int(f.Len)))*p.perByte
	return f
}

// due returns the priorities whose first frame may leave.
func (p *Port) due(now Time) (can uint8) {
	for set := p.ready &^ p.pauses.paused; set != 0; set &= set - 1 {
		i := bits.TrailingZeros8(set)
		if p.lanes[i].head.Due <= now {
			can |= 1 << i
		}
	}
	return can
}

// Deadline returns when to call Next and Watch again.
func (p *Port) Deadline() Time {
	at := min(p.pauses.deadline(p), p.watch.next)
	if !p.up {
		return at
	}
	if p.stop.tell != 0 {
		return min(at, p.busy)
	}
	at = min(at, max(p.busy, p.stop.refresh))
	if p.held {
		return at
	}
	for set := p.ready &^ p.pauses.paused; set != 0; set &= set - 1 {
		at = min(at, max(p.busy, p.lanes[bits.TrailingZeros8(set)].head.Due))
	}
	return at
}
