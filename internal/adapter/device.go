// Package adapter is the channel adapter: it owns every object of a device,
// binds rings, memory, protocol machines and a link together, and makes them
// progress. A lane owns one link and the queue pairs on it. One goroutine at a
// time makes a lane progress: a poster, a poller, or the lane's own goroutine when
// there is neither.
//
// The adapter holds no protocol rules, which are the machines', and offers no
// friendly interface, which is package verbs: it is what hardware would be,
// seen from its driver.
//
// Three packages below have parts of it: schedule decides which queue pair or stream of a
// lane sends next, drive who makes a lane progress, and stream connects the queue pairs
// of iWARP. The stages of a packet and their locking are in progress.go.
package adapter

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/congestion"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/sanitize"
	"softrdma/internal/steering"
	"softrdma/internal/trace"
)

// The sentinels that a device of any kind returns.
var (
	ErrBusy      = object.ErrBusy
	ErrClosed    = object.ErrClosed
	ErrDestroyed = object.ErrDestroyed
	ErrOverflow  = object.ErrOverflow
)

// A Config is what a device is made of. Networks or Streams is required.
type Config struct {
	// Networks are those of the lanes, on one endpoint: what is for a queue pair comes to
	// the network of its lane (Share). The device closes their links.
	Networks []frame.Network

	// Share says which lanes of the endpoint they are; zero for all.
	Share steering.Share

	// Streams is the link of an iWARP device, which has one lane. The device closes it.
	Streams link.Streams

	// Clock is the device's monotonic time; nil takes the system's.
	Clock func() time.Duration

	// Manual leaves out the lane's goroutine: the caller drives the device
	// with Progress, as simulated time wants it.
	Manual bool

	// Spin is how long a lane's worker looks for packets before it
	// sleeps in the kernel; 0 goes to sleep at once.
	Spin time.Duration

	// Window bounds the bytes that one queue pair has in flight; 0 derives it
	// from the link's receive buffer.
	Window int

	// Control is the congestion control of connections that do not choose their
	// own (see congestion.Kind).
	Control congestion.Kind

	// Recovery is that of connections that do not choose their own.
	Recovery congestion.Recovery

	// KeepReasons does not tell peers why their requests are refused.
	KeepReasons bool

	// PeerTimeout is that of reliable connections that do not choose their own (see
	// machine.Port); 0 means no limit.
	PeerTimeout time.Duration

	// MTU is the port's active MTU in bytes, the longest datagram payload; 0
	// means 4096.
	MTU int

	// PKeys is the port's P_Key table; nil is that of RoCE.
	PKeys partition.Table

	// Loopback is shared with other devices of this process, to which packets
	// are handed over in memory; nil if there is none.
	Loopback *Loopback

	// Mirror, if set, gets what a device of one lane counts.
	Mirror *trace.Mirror

	// Record, if set, has the flight recorder of a device of one lane.
	Record *recorder.Memory

	// HostBells lets the lanes' links wait for peers on this host as well (HostBell).
	HostBells bool

	// MemoryOnly drops packets to other devices that no path through memory leads to, but not
	// those of queue pair 1 and to multicast groups.
	MemoryOnly bool

	// Reach, if set, looks for a path through memory to the peer of a queue pair (0 if not
	// known) before a path to it is used first. It is called without a lane, and returns an
	// error only if there has to be one.
	Reach func(peer qp.Endpoint, qpn uint32) error

	// NoCRC and Markers are what a device of streams wants of each connection: no
	// CRCs where the peer wants none either, and markers in what the peer sends.
	NoCRC, Markers bool

	// GUID is the device's, by which communication managers know it.
	GUID uint64

	// Faults has the rules of what goes wrong on purpose; nil if there are none.
	Faults *faults.Injector

	// Random draws queue pair numbers and keys; nil takes crypto/rand.
	// Only simulations that must run the same way twice set it.
	Random   func() uint32
	Violated machine.Violations // gets packets of a fabric that are refused for their keys

	// Sanitizer checks how the program uses the device; nil if none does.
	Sanitizer *sanitize.Sanitizer
}

// A Device is one channel adapter with one port.
type Device struct {
	cfg   Config
	clock func() time.Duration
	laneList

	Memory *memory.Table
	Trace  *trace.Stream

	mu     sync.Mutex
	counts object.Counts
	inventory
	nextPD uint32
	closed bool

	placed   atomic.Uint32 // queue pairs made, to spread them over the lanes
	headed   atomic.Int32  // those that show the program their packets' IP headers: UD
	done     chan struct{} // closed with the device
	closing  sync.Once
	closeErr error

	portDown atomic.Bool // by a rule of faults

	handles handleTable
	xrc     xrcQueues
	mtu     atomic.Int64 // of the port, active
	pkeys   atomic.Pointer[partition.Table]

	events   object.Events[AsyncEvent]
	refusals recorder.Refusals

	failed atomic.Pointer[func(qpn uint32, why reason.Detail)] // see OnFailure

	failures failures
	paths    paths
}

// Open makes a device on a link.
func Open(cfg Config) *Device {
	if cfg.MTU == 0 {
		cfg.MTU = 4096
	}
	if cfg.Window == 0 {
		// Leave room for other peers: half of what the socket can hold, and no
		// more than the megabyte behind which the rate no longer grows.
		buffer := 0
		if cfg.Streams == nil {
			buffer = cfg.Networks[0].Link().Capabilities().ReceiveBuffer
		}
		cfg.Window = min(max(buffer/2, 64<<10), 1<<20)
	}
	d := &Device{
		cfg: cfg, clock: cfg.Clock, Memory: memory.NewTable(), Trace: &trace.Stream{Mirror: cfg.Mirror},
		done: make(chan struct{}),
	}
	if cfg.PKeys == nil {
		d.cfg.PKeys = partition.RoCE
	}
	d.mtu.Store(int64(cfg.MTU))
	d.pkeys.Store(&d.cfg.PKeys)
	if d.Memory.Random = cfg.Random; cfg.Random == nil {
		d.cfg.Random = memory.Random
	}
	if d.clock == nil {
		epoch := time.Now()
		d.clock = func() time.Duration { return time.Since(epoch) }
	}
	d.events.Init()
	d.openLanes()
	if m := cfg.Record; m != nil {
		d.record = m
		m.Use(time.Now().Add(-d.clock()), &d.lanes[0].recorder, &d.refusals, &d.pairs)
	}
	d.Trace.Changed = d.traceChanged
	d.Trace.Refused = func(qpn uint32, x reason.Detail) { d.refusals.Add(d.clock(), qpn, x) }
	if cfg.Faults != nil {
		d.inject(cfg.Faults)
	}
	if cfg.Loopback != nil {
		cfg.Loopback.add(d)
	}
	if !cfg.Manual {
		for _, l := range d.lanes { // all are there: they hand each other packets
			go l.Run()
		}
	}
	return d
}

func (d *Device) openLanes() {
	d.lanes = make([]*lane, max(len(d.cfg.Networks), 1))
	if d.share = d.cfg.Share; d.share.Of == 0 {
		d.share = steering.Whole(len(d.lanes))
	}
	if d.IWARP() {
		d.streams = newStreamLane(d)
		d.lanes[0] = &d.streams.lane
		return
	}
	for i, n := range d.cfg.Networks {
		l := newPacketLane(d, i, n)
		d.packets = append(d.packets, l)
		d.lanes[i] = &l.lane
	}
}

// Local returns where the device receives.
func (d *Device) Local() qp.Endpoint {
	if d.IWARP() {
		return d.cfg.Streams.Local()
	}
	return d.cfg.Networks[0].Local()
}

// MTU is the port's active MTU in bytes.
func (d *Device) MTU() int { return int(d.mtu.Load()) }

// Count returns how many objects exist.
func (d *Device) Count() object.Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.counts
	c.MR = d.Memory.Count() - c.MW
	return c
}

// Progress drives a Manual device at the present time of its clock. It returns when
// the device wants to be driven again, machine.Never for not before a packet.
func (d *Device) Progress() time.Duration {
	for busy := true; busy; {
		busy = false
		for _, l := range d.lanes {
			l.Lock()
			for l.Progress() {
				busy = len(d.lanes) > 1 // others may have got something to do
			}
			l.Unlock()
		}
	}
	next := machine.Never
	d.locked(func(l *lane) { next = min(next, l.carrier.Next()) })
	return next
}

// traffic returns where a lane counts what it carries: in the mirror, or else in its own memory.
func (c *Config) traffic(own *trace.Traffic) *trace.Traffic {
	if m := c.Mirror; m != nil {
		return &m.Traffic
	}
	return own
}

// Traffic returns what the lanes have carried.
func (d *Device) Traffic() (sum trace.Traffic) {
	d.locked(func(l *lane) { sum.Add(*l.traffic) })
	return sum
}

// Close ends the device: every queue pair stops, its memory is forgotten and
// waiters are woken with ErrClosed. Objects need not be destroyed before. When
// it returns, by the first or another call, no registered memory is touched
// any more.
func (d *Device) Close() error {
	d.closing.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		if b := d.cfg.Loopback; b != nil {
			b.remove(d)
		}
		d.each((*lane).stop)
		d.each((*lane).close)
		close(d.done)
		for _, l := range d.lanes {
			d.closeErr = errors.Join(d.closeErr, l.link.Close())
		}
		for _, l := range d.packets {
			l.closeHost()
		}
		d.Left()
	})
	return d.closeErr
}

// Closed is ErrClosed once Close was called.
func (d *Device) Closed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	return nil
}

// add changes a count of objects, refusing new ones on a closed device.
func (d *Device) add(n *int, by int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed && by > 0 {
		return ErrClosed
	}
	*n += by
	return nil
}

var _ machine.Host = (*Device)(nil)
