// Package hostpath is one lane's half of the memory path: it sends packets to peers of the
// same host through rings in shared memory, and receives theirs (link/hostmem).
//
// It owns which rings a lane polls and which wake it, the tasks that wait for room in a
// ring, and how a payload travels. It knows no queue pair and no protocol: the lane gives
// it packets and takes them from it. Who may be a peer is decided by package samehost.
//
// # How a payload travels
//
// A payload of a few hundred bytes is copied into the ring, as is every payload whose
// memory its sender may reuse before the peer has acknowledged it. Others are referred
// to, if they are in memory that both have mapped: the peer copies them once. Memory that
// only the sender has mapped is copied into the ring. The peer never reads it: its pages may
// come from a file system or a process (userfaultfd) that does not answer, and a call that
// waits for such a page cannot be interrupted.
//
// # A full ring
//
// Tasks wait while a ring is full, because nothing is lost in memory. A peer that takes
// nothing for StallTime counts as stopped. Packets to it are then dropped, as a network
// drops those to a host that vanished, and the machines' retries end.
//
// All methods are called with the lane's lock held, unless they say otherwise.
package hostpath

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
)

// StallTime is for how long a peer with a full ring may take nothing before packets to it
// are dropped. A process that has to share its processor stands still for tens of
// milliseconds.
const StallTime = 100 * time.Millisecond

// A Lane is the memory path of one lane. Init prepares it.
type Lane struct {
	Config
	index   int
	paths   []*Path   // the newest last; changed with the lane's lock and windowMu, read with either
	full    []*Sender // that tasks wait for
	touched []*Sender // published since the last Flush
	timer   schedule.Entry
	copied  []byte // payloads that machines read themselves
	message hostmem.Received
	empty   uint          // looks since a message came
	asked   time.Duration // when it was the link's turn

	postponed bool // a long message, until the lane has sent
	flushed   bool // the lane has sent since then

	invalidated uint32     // bindings of windows that had ended, see Invalidated
	windowMu    sync.Mutex // see windows; the last of the lane's locks

	// mu is held while the sleeper arms rings, which it does without the lane's lock. A ring
	// that is not polled is armed, and all are while there is a sleeper.
	mu       sync.Mutex
	polled   []*ring // changed with the lane's lock and mu, read with either
	sleeping bool
	slept    atomic.Bool // bells may have rung
}

// A Config is what a lane needs.
type Config struct {
	Port     Port
	Tasks    *schedule.Queue
	Segments *memory.Segments // that payloads may lie in
	Local    netip.AddrPort   // the device, as packets name it
	Clock    func() time.Duration
	Bells    *hostmem.Bells // nil if there is none: simulated time
}

// A Port takes what the memory path receives.
type Port interface {
	// Message takes a packet or train without its ICRC. The payload is valid during the call,
	// and no longer than m.Lent says. What the message says was not checked.
	Message(now time.Duration, p *Path, m *hostmem.Received, payload []byte)

	// Lost takes a packet or train without ICRC whose payload cannot be read: the peer has
	// taken it back, or refers to memory that it does not offer.
	Lost(now time.Duration, p *Path, m *hostmem.Received)

	// Packet takes a packet from BTH to ICRC, and the frame's header in front of it.
	Packet(now time.Duration, p *Path, m *hostmem.Received, header, packet []byte)

	// Refused takes note of a packet that was lost or not valid.
	Refused(why reason.Detail)

	// Revoked tells that packets to a peer, which were handed over, may be lost.
	Revoked(p *Path)

	// Broken ends a path whose peer breaks the rules. It must not change the lane.
	Broken(p *Path, why reason.Detail)
}

// A Path is a channel to a peer as one lane sees it.
type Path struct {
	*hostmem.Channel
	share   steering.Share // of the peer's address
	senders []*Sender      // one for each lane of the peer
	rings   []*ring        // likewise
	broken  bool
}

// Init prepares the lane with a number.
func (l *Lane) Init(index int, c Config) {
	l.Config, l.index = c, index
	l.timer.Init((*timer)(l))
}

// Add adds a path. Show has the meaning of ShowPackets's argument.
func (l *Lane) Add(c *hostmem.Channel, show bool) {
	p := &Path{Channel: c, share: steering.Share{First: c.First, Lanes: c.Lanes, Of: max(c.Of, c.Lanes)}}
	for k := range c.Lanes {
		s := &Sender{lane: l, path: p, to: k, Sender: c.Out.Sender(l.index, k)}
		p.senders = append(p.senders, s)
		p.rings = append(p.rings, &ring{path: p, from: k, Receiver: c.In.Receiver(k, l.index)})
	}
	p.show(show)
	l.windowMu.Lock()
	l.paths = append(l.paths, p)
	l.windowMu.Unlock()
	l.mu.Lock()
	for _, r := range p.rings {
		l.warm(r)
	}
	l.mu.Unlock()
}

// Remove ends the use of a path. It receives what the peer has sent before, as a socket keeps
// the last packets of a peer that has gone. When Remove returns the lane does not use the
// channel's memory any more. Tasks that wait for the path may try again.
func (l *Lane) Remove(c *hostmem.Channel) {
	for i, p := range l.paths {
		if p.Channel != c {
			continue
		}
		l.drain(p)
		l.windowMu.Lock() // no other lane uses the path afterwards
		l.paths = append(l.paths[:i:i], l.paths[i+1:]...)
		l.windowMu.Unlock()
		l.mu.Lock()
		l.polled = slices.DeleteFunc(l.polled, func(r *ring) bool { return r.path == p })
		l.mu.Unlock()
		p.broken = true
		for _, s := range p.senders {
			s.revoke() // the peer may see the end of the channel later than its messages
			s.admitAll()
			same := func(x *Sender) bool { return x == s }
			l.full = slices.DeleteFunc(l.full, same)
			l.touched = slices.DeleteFunc(l.touched, same)
		}
		return
	}
}

// drainLimit is more messages than a ring holds. A peer that keeps sending while its path
// ends is not waited for.
const drainLimit = 1 << 14

// Drain receives what is in a channel's rings.
func (l *Lane) Drain(c *hostmem.Channel) {
	for _, p := range l.paths {
		if p.Channel == c {
			l.drain(p)
			return
		}
	}
}

func (l *Lane) drain(p *Path) {
	now := l.Clock()
	for _, r := range p.rings {
		for n := 0; n < drainLimit && l.next(r); n++ {
			l.take(now, r)
		}
		r.show()
	}
}

// ShowPackets tells all peers whether a trace wants to see packets as they would be on a
// network.
func (l *Lane) ShowPackets(on bool) {
	for _, p := range l.paths {
		p.show(on)
	}
}

// Withdraw asks all peers to unmap the segment of a region that has ended, unless another
// region covers it. It is offered again if one does later.
func (l *Lane) Withdraw(r *memory.Region) {
	s := r.Segment()
	if s == nil || len(l.paths) == 0 || l.Segments.Find(memory.Addr(s.Mem)) == s {
		return
	}
	for _, p := range l.paths {
		p.Far.Withdraw(s.ID)
	}
}

func (p *Path) show(on bool) {
	for _, r := range p.rings {
		r.SetWantICRC(on)
	}
}

// Find returns the newest path to the peer of a queue pair, nil if there is none. It is valid until a path
// is added or removed, or Port.Broken is called.
func (l *Lane) Find(peer netip.AddrPort, qpn uint32) *Path {
	peer = qp.OnWire(peer)
	for i := len(l.paths) - 1; i >= 0; i-- {
		if p := l.paths[i]; p.Peer == peer && !p.broken && p.To(qpn) != nil {
			return p
		}
	}
	return nil
}

// Share returns the share of a peer's address that the newest path there leads to, the zero Share
// if there is none.
func (l *Lane) Share(peer netip.AddrPort) steering.Share {
	peer = qp.OnWire(peer)
	for i := len(l.paths) - 1; i >= 0; i-- {
		if p := l.paths[i]; p.Peer == peer {
			return p.share
		}
	}
	return steering.Share{}
}

// To returns the sender of packets to a queue pair of the peer, nil if the queue pair is that
// of another device on the peer's address.
func (p *Path) To(qpn uint32) *Sender {
	if lane, ok := p.share.Lane(qpn); ok {
		return p.senders[lane]
	}
	return nil
}

// RevokePeer revokes the references to one lane of a peer, of all paths that lead there: the
// peer still polls the rings of a path that a newer one has replaced.
func (l *Lane) RevokePeer(peer netip.AddrPort, qpn uint32) {
	peer = qp.OnWire(peer)
	for _, p := range l.paths {
		if p.Peer != peer {
			continue
		}
		if s := p.To(qpn); s != nil {
			s.Revoke()
		}
	}
}

// Revoke revokes the references that any peer has not used yet (Sender.Revoke).
func (l *Lane) Revoke() {
	for _, p := range l.paths {
		for _, s := range p.senders {
			s.Revoke()
		}
	}
}
