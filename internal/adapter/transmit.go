package adapter

import (
	"slices"
	"time"

	"softrdma/internal/adapter/batch"
	"softrdma/internal/adapter/unreachable"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

const (
	// ect0 marks packets as ECN-capable (RFC 3168; annex A17.3.1.1.3,
	// A17.9.3, CA17-5).
	ect0 = 0x02

	defaultHopLimit = 64
)

// A transmitter sends a lane's packets in batches. The payloads that a batch gathers belong
// to the machines: flush sends them before any machine sees another packet.
type transmitter struct {
	batch.Builder
	lane *lane
	flow *txFlow
	qps  []*QP // whose packets these are; stale behind its end
}

func (t *transmitter) init(l *lane) {
	t.lane = l
	t.Builder.Init(l.caps)
	t.qps = make([]*QP, 0, link.MaxPackets)
}

// add hands a packet or train over in memory, or appends its packets to the
// batch. It returns how many there were; a train in memory is one.
func (t *transmitter) add(q *QP, f *txFlow, o *machine.Out) int {
	path := o.Path
	if path == nil {
		path = &q.Attr.Path
	}
	q.level = path.ServiceLevel
	class := frame.Class{TrafficClass: path.TrafficClass &^ 3, HopLimit: path.HopLimit, ServiceLevel: path.ServiceLevel}
	if o.Markable { // CA17-5: 00 where nobody slows down for marks
		class.TrafficClass |= ect0
		o.Markable = false
	}
	if class.HopLimit == 0 {
		class.HopLimit = defaultHopLimit
	}
	o.Pad = ib.PadLen(o.Len)
	t.lane.traffic.Sent += uint64(o.Len)
	index := q.Attr.PKeyIndex
	if q == t.lane.gsi {
		index = o.PKeyIndex
	}
	if !t.lane.putPKey(q, &o.BTH, index) {
		return 1
	}
	if to := t.lane.localLane(f, o.DestQPN); to != nil {
		t.lane.hand(to, q, f, o, class)
		return 1
	}
	if s := t.lane.hostSender(f, o.DestQPN); s != nil {
		t.lane.post(s, q, f, o, class)
		return 1
	}
	if o.Path != nil && q != t.lane.gsi {
		t.lane.search(f, o.DestQPN)
	}
	if f.memoryOnly || t.lane.dev.cfg.MemoryOnly && q != t.lane.gsi && o.DestQPN != multicastQPN {
		t.lane.pathGone(q, &o.BTH)
		return 1
	}
	if o.Train <= 1 {
		t.append(q, f, o, class)
		return 1
	}
	t.train(q, f, o, class)
	return o.Train
}

// train appends the packets of a train.
func (t *transmitter) train(q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	mtu := q.Attr.PathMTU
	for i := 0; i < o.Train; i++ {
		t.append(q, f, t.lane.partOf(q, o, i), class)
		t.Follow()
		for i+1 < o.Train-1 && !t.lane.dev.Trace.On() && t.Next(o, i+1, mtu) {
			i++
		}
	}
	clear(t.lane.part.Pieces)
}

// append adds a packet to the batch. A batch that it does not fit into is sent before.
func (t *transmitter) append(q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	length := o.HeaderLen() + o.Len + int(o.Pad) + ib.ICRCLen
	size := f.HeaderLen() + length
	if !t.Accepts(f.Flow, size, class) {
		t.flush()
	}
	if t.N == 0 {
		t.flow = f
		t.Tx.Queue = o.DestQPN
		t.Begin(f.Flow, size, class)
		if f.Class != class {
			t.lane.net.Classify(f.Flow, class)
		}
	}
	if n := len(t.qps); n == 0 || t.qps[n-1] != q {
		t.qps = append(t.qps, q)
	}
	id := t.ID()
	t.Append(o, length)
	if t.lane.dev.Trace.On() {
		e := trace.Event{Kind: trace.Sent, Time: time.Now(), QPN: q.QPN, Packet: f.traced(class)}
		e.Packet.ID = id
		e.Packet.Header, e.Packet.Pieces = t.Last(o, e.Packet.Pieces)
		t.lane.dev.Trace.Emit(&e)
	}
}

// flush sends the batch.
func (t *transmitter) flush() {
	if t.N == 0 {
		return
	}
	if err := t.lane.packets.Send(&t.Tx); err != nil {
		d := link.SendDetail(err, t.Tx.Bytes)
		for _, q := range t.qps {
			q.sendError = d
		}
		t.lane.dev.Trace.Refuse(t.qps[0].QPN, d)
		t.lane.reports.SendFailed()
		if t.lane.gsi != nil && unreachable.NoRoute(err) && slices.Contains(t.qps, t.lane.gsi) {
			for p := range t.Copied() { // the manager finds its own messages among them
				t.lane.reports.Unsent(t.flow.Peer, p, err)
			}
		}
	}
	t.Reset()
	t.qps = t.qps[:0]
}
