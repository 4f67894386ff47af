// Package simnet is a simulated network on a virtual clock. Its links of packets lose,
// duplicate, reorder, corrupt, delay, queue and ECN-mark packets at random, from a seed. Its
// links of streams delay bytes, deliver them in other pieces than they were written in, and
// reset streams. What happens depends only on the seed and on what is sent: the network starts
// no goroutine, reads no clock and ranges over no map, so that a seed replays a failed run.
//
// The only part of RDMA that it knows is the ICRC: it refuses to send packets with a wrong
// one, and ensures that corrupted packets can be detected. It drives devices only through
// registered Drivers. One goroutine at a time uses a network and its links.
package simnet

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"softrdma/internal/eventqueue"
)

const never = time.Duration(math.MaxInt64)

// Errors of Run, wrapped with the time.
var (
	// ErrLimit is returned when Run's time limit has passed.
	ErrLimit = errors.New("virtual time limit passed")
	// ErrIdle is returned when no packet is in flight and no device has a deadline, so that
	// the condition can never become true.
	ErrIdle = errors.New("network idle forever")
	// ErrSteps is returned after MaxSteps events: the devices keep each other busy.
	ErrSteps = errors.New("too many events")
)

// MaxSteps bounds the events of one Run.
const MaxSteps = 20_000_000

// A Driver is a device that the network drives. Progress makes it act at the current virtual
// time and returns its next deadline. A deadline in the past means at once.
type Driver interface{ Progress() time.Duration }

// A Network joins links. It is used by one goroutine.
type Network struct {
	now     time.Duration
	seed    uint64
	events  eventqueue.Queue[event]
	links   []*Link
	nats    []*NAT
	streams []*StreamLink
	drivers []Driver
	carrier func(Transit) // see Carry
	free    []*packet
	hash    uint64
}

// New makes an empty network whose faults are drawn from seed.
func New(seed uint64) *Network {
	return &Network{seed: seed, hash: seed}
}

// Clock returns the virtual time, for the devices on the network.
func (n *Network) Clock() time.Duration { return n.now }

// Hash returns a hash of everything that happened so far: each packet's bytes, route, time and
// result. Equal seeds and equal senders give equal hashes.
func (n *Network) Hash() uint64 { return n.hash }

// Random returns a source of random numbers for devices on the network. It depends only on the
// network's seed and the name.
func (n *Network) Random(name uint64) *rand.Rand {
	return rand.New(rand.NewPCG(n.seed, name))
}

// Attach makes a link with its own address.
func (n *Network) Attach(local netip.AddrPort, c LinkConfig) *Link {
	if n.find(local) != nil {
		panic(fmt.Sprintf("simnet: %v is attached already", local))
	}
	return n.attach(local, c)
}

// AttachLanes makes several links with one address. Packets are steered to them by
// destination queue pair, as the system does for sockets that share a port.
func (n *Network) AttachLanes(local netip.AddrPort, c LinkConfig, lanes int) []*Link {
	first := n.Attach(local, c)
	first.lanes = append(first.lanes, first)
	for len(first.lanes) < lanes {
		first.lanes = append(first.lanes, n.attach(local, c))
	}
	return first.lanes
}

func (n *Network) attach(local netip.AddrPort, c LinkConfig) *Link {
	i := uint64(len(n.links))
	l := &Link{
		net: n, index: len(n.links), local: local, config: c,
		out: direction{faults: c.Egress, random: n.Random(1<<32 | i<<1)},
		in:  direction{faults: c.Ingress, random: n.Random(1<<32 | i<<1 | 1)},
	}
	if l.config.ReceiveBuffer == 0 {
		l.config.ReceiveBuffer = defaultReceiveBuffer
	}
	n.links = append(n.links, l)
	return l
}

func (n *Network) find(a netip.AddrPort) *Link {
	for _, l := range n.links {
		if l.local == a && !l.closed && l.nat == nil {
			return l
		}
	}
	return nil
}

// Drive makes the network drive a device. Devices are driven in the order of these calls.
func (n *Network) Drive(d Driver) { n.drivers = append(n.drivers, d) }

// Release undoes Drive, before the device is closed.
func (n *Network) Release(d Driver) {
	for i, x := range n.drivers {
		if x == d {
			n.drivers = append(n.drivers[:i:i], n.drivers[i+1:]...)
			return
		}
	}
}

// Step lets every device progress at the current time and advances the clock to the next
// packet or deadline. Then the packets of that moment arrive and the devices progress again.
// It reports whether there was a next packet or deadline.
func (n *Network) Step() bool {
	if !n.advance(n.progress(), never) {
		return false
	}
	n.progress()
	return true
}

// progress drives every device and returns the earliest deadline.
func (n *Network) progress() time.Duration {
	next := never
	for _, d := range n.drivers {
		next = min(next, d.Progress())
	}
	return next
}

// advance moves the clock to the next arrival or, when that is earlier, to
// next, but not beyond the limit. It reports false if there is neither.
func (n *Network) advance(next, limit time.Duration) bool {
	if at, ok := n.events.Next(); ok {
		next = min(next, at)
	}
	if next == never {
		return false
	}
	if next > limit {
		n.now = limit
		return true
	}
	n.now = max(n.now, next)
	for {
		e, _, ok := n.events.Pop(n.now)
		if !ok {
			return true
		}
		n.arrive(e)
	}
}

// Run advances the network until the condition holds, for at most the limit of virtual
// time. It checks the condition whenever the devices have progressed.
func (n *Network) Run(until func() bool, limit time.Duration) error {
	end := n.now + limit
	for range MaxSteps {
		n.progress()
		switch {
		case until():
			return nil
		case n.now >= end:
			return fmt.Errorf("%w: %v", ErrLimit, limit)
		case !n.advance(n.progress(), end): // again: the condition may have posted
			return fmt.Errorf("%w: at %v", ErrIdle, n.now)
		}
	}
	return fmt.Errorf("%w: %d by %v", ErrSteps, MaxSteps, n.now)
}

// Sleep advances the network by d.
func (n *Network) Sleep(d time.Duration) {
	end := n.now + d
	for n.now < end {
		if !n.advance(n.progress(), end) {
			n.now = end
		}
	}
	n.progress()
}

// Next returns when the next packet arrives, and reports whether one is in flight.
func (n *Network) Next() (time.Duration, bool) { return n.events.Next() }

// Waiting reports whether Receive has something to deliver.
func (l *Link) Waiting() bool { return l.head < len(l.inbox) }

// Inject puts a datagram into the receive queue of the link with address dst,
// as if it had arrived from src. It reports false if there is no such link or no room.
func (n *Network) Inject(src, dst netip.AddrPort, tos, hops uint8, data []byte) bool {
	l := n.find(dst)
	if l == nil {
		return false
	}
	p := n.packet(len(data))
	copy(p.data, data)
	p.src, p.dst, p.tos, p.hops = src, dst, tos, hops
	return l.lane(data).enqueue(p)
}

// packet takes a packet of n bytes from the free list.
func (n *Network) packet(size int) *packet {
	var p *packet
	if k := len(n.free) - 1; k >= 0 {
		p = n.free[k]
		n.free = n.free[:k]
	} else {
		p = &packet{}
	}
	if cap(p.data) < size {
		p.data = make([]byte, size, max(size, 2048))
	}
	p.data, p.front, p.fragments, p.carried, p.segment = p.data[:size], p.front[:0], false, false, segment{}
	return p
}

func (n *Network) drop(p *packet) { n.free = append(n.free, p) }

// arrive forwards a packet that has passed one direction of a link.
func (n *Network) arrive(e event) {
	if e.call != nil {
		e.call()
		return
	}
	p := e.packet
	if e.link != nil {
		e.link.enqueue(p)
		return
	}
	if p.dst.Addr().IsMulticast() {
		for _, l := range n.links {
			if l.wants(p.dst) {
				n.enter(l, n.copy(p))
			}
		}
		n.drop(p)
		return
	}
	if e.nat != nil {
		e.nat.nat.leave(e.nat, p)
	}
	l := n.find(p.dst)
	if l == nil {
		l = n.translate(p)
	}
	if l == nil {
		n.note(noteUnreachable, -1, p)
		n.drop(p)
		return
	}
	if n.carrier != nil && !p.carried {
		p.carried = true
		n.carrier(transit(p))
		return
	}
	n.enter(l.lane(p.data), p)
}

// enter passes a packet through the faults between the network and a link.
func (n *Network) enter(l *Link, p *packet) { l.in.pass(n, l.index, place{link: l}, p) }

func (n *Network) copy(p *packet) *packet {
	c := n.packet(len(p.data))
	copy(c.data, p.data)
	c.front = append(c.front, p.front...)
	c.src, c.dst, c.tos, c.hops, c.carried, c.segment = p.src, p.dst, p.tos, p.hops, p.carried, p.segment
	return c
}

// Poke lets every device progress again at the current time, after a message that did not use
// the network.
func (n *Network) Poke() { n.call(n.now, func() {}) }

// call schedules a call of f.
func (n *Network) call(at time.Duration, f func()) {
	n.events.Push(at, event{call: f})
}

// schedule schedules the arrival of a packet at a place.
func (n *Network) schedule(at time.Duration, to place, p *packet) {
	n.events.Push(at, event{place: to, packet: p})
}
