package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/trace"
)

// A tap is a route whose packets a trace sees: as sent, or as received at the other end in this
// process.
type tap struct {
	route
	stream *trace.Stream
	kind   trace.Kind
}

// tapped returns a route with the lane's trace in front of it, if there is one.
func (l *packetLane) tapped(r route) route {
	if l.watch == nil {
		return r
	}
	return &tap{r, l.watch, trace.Sent}
}

// tappedArrivals returns a route to the lane with the trace of its device in front of it, if there is
// one. A lane of another device calls it.
func (l *packetLane) tappedArrivals(r route) route {
	if !l.dev.Trace.On() {
		return r
	}
	return &tap{r, l.dev.Trace, trace.Received}
}

// Prepare implements route.
func (t *tap) Prepare(q *QP, o *machine.Out) {
	t.route.Prepare(q, o)
	o.Longest = 0
}

// Send implements route.
func (t *tap) Send(_ time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	return sendWhole(t, q, f, o, class)
}

// Put implements route.
func (t *tap) Put(p *packet) {
	qpn := p.q.QPN
	if t.kind == trace.Received {
		qpn = p.dest
	}
	t.stream.Emit(&trace.Event{Kind: t.kind, Time: time.Now(), QPN: qpn, Packet: p.traced()})
	t.route.Put(p)
}

// traced is the packet as a trace shows it.
func (p *packet) traced() trace.Packet {
	return trace.Packet{
		Src: p.flow.Local, Dst: p.flow.Peer, TOS: p.class.TrafficClass, TTL: p.class.HopLimit,
		ID: p.id, Header: p.header, Native: p.flow.Native, Pieces: [][]byte{p.data},
	}
}

// traceChanged follows a trace of the device that has begun or ended. It is called without a lane.
func (d *Device) traceChanged() {
	if b := d.cfg.Loopback; b != nil {
		b.changes.Add(1) // lanes of other devices show what arrives here
	}
	d.locked((*lane).watchTrace)
}

// completed shows the trace a completion, before the program can see it, and remembers a failed one.
func (q *QP) completed(e *queue.CQE) {
	if e.Status != queue.Success {
		q.lane.failed(e)
	}
	if w := q.lane.watch; w != nil {
		own, peer := e.Reasons()
		w.Emit(&trace.Event{
			Kind: trace.Completed, Time: time.Now(), QPN: e.QPN, WRID: e.WRID, Opcode: uint8(e.Op), Status: uint8(e.Status),
			Detail: own, Said: peer,
		})
	}
}

// arrived shows the trace a packet that has arrived, from BTH to ICRC.
func (l *packetLane) arrived(b []byte) {
	if l.watch != nil {
		l.watch.Emit(&trace.Event{Kind: trace.Received, Time: time.Now(), QPN: l.in.DestQPN, Packet: l.tracedArrival(b)})
	}
}

// tracedArrival is the packet in l.in as a trace shows it.
func (l *packetLane) tracedArrival(b []byte) trace.Packet {
	id := uint16(0)
	if l.from != nil { // the memory path numbers no packets
		id = l.from.ID()
	}
	return trace.Packet{
		Src: l.in.Src, Dst: l.in.Dst, TOS: l.in.TOS, TTL: l.in.TTL, ID: id, Header: l.header, Native: l.in.LRH.Present, Pieces: [][]byte{b},
	}
}
