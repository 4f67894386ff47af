package adapter

import (
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A Loopback joins the devices of a process: packets from one to another, or back to
// itself, are handed over in memory. Machines, packet order and traces are the same as
// on a network. There is no system call, and no ICRC unless a trace shows it. The zero
// value is ready for use.
type Loopback struct {
	mu      sync.Mutex
	devices map[place]*Device
	changes atomic.Uint32 // of devices and their traces: lanes choose their routes again
}

// A place is where a device is reached, and by what frames.
type place struct {
	kind string // of the frames, "" of streams
	at   qp.Endpoint
}

// add enters a device. Of devices that share a place the first one is found.
func (b *Loopback) add(d *Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.devices == nil {
		b.devices = make(map[place]*Device)
	}
	if p := placeOf(d); b.devices[p] == nil {
		b.devices[p] = d
	}
	b.changes.Add(1)
}

// remove ends add.
func (b *Loopback) remove(d *Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := placeOf(d); b.devices[p] == d {
		delete(b.devices, p)
	}
	b.changes.Add(1)
}

func (b *Loopback) find(p place) *Device {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.devices[p]
}

func placeOf(d *Device) place {
	p := place{at: d.Local()}
	if !d.IWARP() {
		p.kind = d.cfg.Networks[0].Kind()
	}
	return p
}

// A process is what the routes of a lane to other lanes of this process share.
type process struct {
	lane   *packetLane
	held   *packetLane // taken to hand it packets
	joined []byte      // a payload that was in pieces
}

// A processRoute hands packets over to a lane of this process: at once if that lane is free, which
// then stays taken until release, otherwise through its inbox.
type processRoute struct {
	*process
	to *packetLane
}

// trainBytes is how much is handed over at once: what one system call brings from a
// program goes to the next while it is in the processor's cache.
const trainBytes = 256 << 10

// Path implements route.
func (*processRoute) Path() object.Path { return object.PathSameProcess }

// Prepare implements route.
func (r *processRoute) Prepare(q *QP, o *machine.Out) {
	o.Longest, o.Whole, o.Lossless = 0, false, false
	if q.transport.Acknowledged {
		o.Longest, o.Whole = trainBytes/q.Attr.PathMTU, true
	}
}

// Admit implements route.
func (*processRoute) Admit(time.Duration, *QP) bool { return true }

// Send implements route.
func (r *processRoute) Send(now time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	// A machine that sends to itself is not called with what it lent.
	if !r.to.dev.cfg.Faults.OnReceived() && r.take(r.to) && (r.to != r.lane || o.DestQPN != q.QPN) && (o.Train <= 1 || len(o.Pieces) == 1) {
		r.to.accept(f, o, r.join(o.Pieces), class)
		return 1
	}
	if o.Train <= 1 {
		r.Put(r.lane.whole(q, f, o, class))
		return 1
	}
	for i := range o.Train {
		r.Send(now, q, f, r.lane.partOf(q, o, i), class, 1)
	}
	clear(r.lane.part.Pieces)
	return 1
}

// Stamp implements route.
func (*processRoute) Stamp(p *packet) { p.stamp(0) }

// Put implements route.
func (r *processRoute) Put(p *packet) {
	h := arrival{Src: p.flow.Local, Dst: p.flow.Peer, TOS: p.class.TrafficClass, TTL: p.class.HopLimit, Memory: true, New: true}
	if !r.to.put(h, p.data) {
		r.to.dev.Trace.Refuse(p.dest, reason.Detail{Reason: reason.PacketStray, Expected: inboxLimit, Found: uint64(len(p.data))})
	}
	r.take(r.to) // its holder may have looked into the inbox just before
}

// join returns the pieces of a payload as one. It copies several.
func (s *process) join(pieces [][]byte) []byte {
	switch len(pieces) {
	case 0:
		return nil
	case 1:
		return pieces[0]
	}
	s.joined = s.joined[:0]
	for _, p := range pieces {
		s.joined = append(s.joined, p...)
	}
	return s.joined
}

// take locks another lane for the holder of this one, and reports whether it did: it never
// waits. What was handed to the lane before comes first.
func (s *process) take(to *packetLane) bool {
	if to == s.lane {
		return true
	}
	if s.held != to {
		s.release()
		if !to.TryLock() {
			return false
		}
		s.held = to
	}
	to.Serve()
	return true
}

// release unlocks the lane that take locked, after it has sent what is pending there.
func (s *process) release() {
	if to := s.held; to != nil {
		s.held = nil
		to.Transmit(to.dev.clock())
		to.Unlock()
	}
}

// accept receives a packet from a lane of this process as it is.
func (l *packetLane) accept(f *txFlow, o *machine.Out, payload []byte, class frame.Class) {
	if l.closed {
		return
	}
	in := &l.in
	in.Packet = o.Packet
	in.Payload, in.Train = payload, o.Train
	in.Src, in.Dst, in.TOS, in.TTL, in.Memory = f.Local, f.Peer, class.TrafficClass, class.HopLimit, true
	l.dispatch(l.dev.clock(), nil)
	in.Train = 0
}
