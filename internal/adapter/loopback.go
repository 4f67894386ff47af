package adapter

import (
	"time"

	"softrdma/internal/adapter/handover"
	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/adapter/places"
	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A Loopback joins the devices of a process: packets from one to another, or back to
// itself, are handed over in memory. Machines, packet order and traces are the same as
// on a network. There is no system call, and no ICRC unless a trace shows it. The zero
// value is ready for use.
type Loopback struct{ devices places.Map[*Device] }

func (d *Device) place() places.Place {
	p := places.Place{At: d.Local()}
	if d.cfg.Streams == nil {
		p.Kind = d.cfg.Networks[0].Kind()
	}
	return p
}

// localLane returns the lane of this process that packets on a flow are for, nil if
// they leave the process.
func (l *lane) localLane(f *txFlow, qpn uint32) *lane {
	b := l.dev.cfg.Loopback
	if b == nil || qpn == multicastQPN {
		return nil
	}
	if n := b.devices.Changes(); n != f.changes {
		f.changes, f.peer = n, b.devices.Find(places.Place{Kind: l.net.Kind(), At: qp.InZone(f.Peer, l.net.Local())})
	}
	if f.peer == nil {
		return nil
	}
	return f.peer.laneOf(qpn)
}

// trainBytes is how much is handed over at once: what one system call brings from a
// program goes to the next while it is in the processor's cache.
const trainBytes = 256 << 10

// longest returns how many packets of q may be sent as a train: a batch to the network,
// which takes the train apart, or many as a whole to a lane of this process or host, unless
// a trace shows packets.
func (l *lane) longest(q *QP, via *hostpath.Sender) (n int, whole bool) {
	switch {
	case !q.transport.Acknowledged || q.flow == nil:
		return 0, false
	case l.localLane(q.flow, q.Attr.DestQPN) != nil:
	case via != nil:
		return via.Longest(q.Attr.PathMTU, l.dev.Trace.On()), true
	default:
		return min(l.caps.Bytes/(q.flow.HeaderLen()+q.Attr.PathMTU+ib.BTHLen+ib.ICRCLen), l.caps.Packets), false
	}
	if l.dev.Trace.On() {
		return 0, false
	}
	return trainBytes / q.Attr.PathMTU, true
}

// hand delivers a packet of q to a lane of this process: at once if that lane is free,
// which then stays taken until release, otherwise to its inbox.
func (l *lane) hand(to *lane, q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	traced := l.dev.Trace.On() || to.dev.Trace.On()
	// A machine that sends to itself is not called with what it lent.
	if l.take(to) && !traced && (to != l || o.DestQPN != q.QPN) && (o.Train <= 1 || len(o.Pieces) == 1) {
		to.accept(f, o, l.tx.Join(o.Pieces), class)
		return
	}
	if o.Train > 1 {
		for i := range o.Train {
			l.hand(to, q, f, l.partOf(q, o, i), class)
		}
		clear(l.part.Pieces)
		return
	}
	l.tx.flush() // frees the arena
	b := l.tx.Build(f.Flow, o, traced)
	if traced {
		if f.Class != class {
			l.net.Classify(f.Flow, class)
		}
		e := trace.Event{Kind: trace.Sent, Time: time.Now(), QPN: q.QPN, Packet: f.traced(class)}
		e.Packet.Header, e.Packet.Pieces = f.Header(len(b)), [][]byte{b}
		l.dev.Trace.Emit(&e)
		e.Kind, e.QPN = trace.Received, o.DestQPN
		to.dev.Trace.Emit(&e)
	}
	if !to.put(handover.Packet{Src: f.Local, Dst: f.Peer, TOS: class.TrafficClass, TTL: class.HopLimit, Memory: true}, b) {
		to.dev.Trace.Refuse(o.DestQPN, reason.Detail{Reason: reason.PacketStray, Expected: handover.Limit, Found: uint64(len(b))})
	}
	l.take(to) // its holder may have looked into the inbox just before
}

// partOf makes packet i of a train of q in l.part.
func (l *lane) partOf(q *QP, o *machine.Out, i int) *machine.Out {
	o.Part(i, q.Attr.PathMTU, &l.part)
	l.part.Pad = ib.PadLen(l.part.Len)
	return &l.part
}

// take locks another lane for the holder of l, and reports whether it did: it never
// waits. What was handed to the lane before comes first.
func (l *lane) take(to *lane) bool {
	if to == l {
		return true
	}
	if l.held != to {
		l.release()
		if !to.TryLock() {
			return false
		}
		l.held = to
	}
	to.Serve()
	return true
}

// release unlocks the lane that take locked, after it has sent what is pending there.
func (l *lane) release() {
	if to := l.held; to != nil {
		l.held = nil
		to.Transmit(to.dev.clock())
		to.Unlock()
	}
}

// accept receives a packet from a lane of this process as it is.
func (l *lane) accept(f *txFlow, o *machine.Out, payload []byte, class frame.Class) {
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
