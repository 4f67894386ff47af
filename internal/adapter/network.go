package adapter

import (
	"slices"
	"time"

	"softrdma/internal/adapter/batch"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/adapter/unreachable"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/wire/ib"
)

// A network is the route out of the process and its host: the lane's link, which gets packets in
// batches. The payloads that a batch gathers belong to the machines: flush sends them before any
// machine sees another packet.
type network struct {
	batch.Builder
	lane    *packetLane
	link    link.Packets
	caps    link.Capabilities
	waiting schedule.Waiting
	flow    *txFlow
	qps     []*QP // whose packets these are; stale behind its end
}

var _ route = (*network)(nil)

func (t *network) init(l *packetLane, p link.Packets) {
	t.lane, t.link, t.caps = l, p, p.Capabilities()
	t.Builder.Init(t.caps)
	t.qps = make([]*QP, 0, link.MaxPackets)
}

// Path implements route.
func (*network) Path() object.Path { return object.PathNetwork }

// Prepare implements route: a train fills a batch, and is taken apart.
func (t *network) Prepare(q *QP, o *machine.Out) {
	o.Longest, o.Whole, o.Lossless = 0, false, false
	if q.transport.Acknowledged && q.flow != nil {
		o.Longest = min(t.caps.Bytes/(q.flow.HeaderLen()+q.Attr.PathMTU+ib.BTHLen+ib.ICRCLen+t.caps.Overhead), t.caps.Packets)
	}
}

// Admit implements route.
func (t *network) Admit(_ time.Duration, q *QP) bool {
	if t.caps.Limited == nil || t.caps.Limited.Room(q.level) {
		return true
	}
	t.waiting.Add(&q.entry, q.level)
	return false
}

// resume gives queue pairs that wait for room their turns where there is some.
func (t *network) resume() { t.waiting.Resume(&t.lane.tasks, t.caps.Limited) }

// Send implements route.
func (t *network) Send(_ time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	if o.Train <= 1 {
		t.append(q, f, o, class)
		return 1
	}
	mtu := q.Attr.PathMTU
	for i := 0; i < o.Train; i++ {
		t.append(q, f, t.lane.partOf(q, o, i), class)
		t.Follow()
		for i+1 < o.Train-1 && t.Next(o, i+1, mtu) {
			i++
		}
	}
	clear(t.lane.part.Pieces)
	return o.Train
}

// append adds a packet to the batch.
func (t *network) append(q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	length := o.HeaderLen() + o.Len + int(o.Pad) + ib.ICRCLen
	t.begin(q, f, f.HeaderLen()+length, class, o.DestQPN)
	t.Append(o, length)
}

// begin makes room for a packet of size bytes. A batch that it does not fit into is sent before.
func (t *network) begin(q *QP, f *txFlow, size int, class frame.Class, dest uint32) {
	if !t.Accepts(f.Flow, size, class) {
		t.flush()
	}
	if t.N == 0 {
		t.flow = f
		t.Tx.Queue = dest
		t.Begin(f.Flow, size, class)
	}
	if f.Class != class { // that of a packet of the flow which took another route
		t.lane.net.Classify(f.Flow, class)
	}
	if n := len(t.qps); n == 0 || t.qps[n-1] != q {
		t.qps = append(t.qps, q)
	}
}

// Stamp implements route.
func (t *network) Stamp(p *packet) {
	t.begin(p.q, p.flow, len(p.header)+len(p.data), p.class, p.dest)
	p.stamp(t.ID())
}

// Put implements route.
func (t *network) Put(p *packet) {
	t.begin(p.q, p.flow, len(p.header)+len(p.data), p.class, p.dest)
	t.Copy(p.header, p.data)
}

// flush sends the batch.
func (t *network) flush() {
	if t.N == 0 {
		t.qps = t.qps[:0] // a wrapper has put nothing
		return
	}
	if err := t.link.Send(&t.Tx); err != nil {
		d := link.SendDetail(err, t.Tx.Bytes)
		for _, q := range t.qps {
			q.sendError = d
		}
		t.lane.dev.Trace.Refuse(t.qps[0].QPN, d)
		t.lane.reports.SendFailed()
		t.tooLong(d)
		if t.lane.gsi != nil && unreachable.NoRoute(err) && slices.Contains(t.qps, t.lane.gsi) {
			for p := range t.Copied() { // the manager finds its own messages among them
				t.lane.reports.Unsent(t.flow.Peer, p, err)
			}
		}
	}
	t.Reset()
	t.qps = t.qps[:0]
}
