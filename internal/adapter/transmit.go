package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

const (
	// stageLimit is the length up to which a packet is copied as a whole. Longer ones are
	// sent as gather lists. Measured: copying is faster up to about 1.5 KB.
	stageLimit = 1536

	// ect0 marks packets as ECN-capable (RFC 3168; annex A17.3.1.1.3,
	// A17.9.3, CA17-5).
	ect0 = 0x02

	defaultHopLimit = 64
)

// A transmitter gathers packets of one flow and one size into a batch. It owns the arena
// that headers, trailers and short packets are written to. The payloads that it gathers
// belong to the machines: flush sends them before any machine sees another packet.
type transmitter struct {
	lane   *lane
	arena  []byte
	used   int
	tx     link.Tx
	flow   *txFlow
	class  frame.Class
	crc    *ib.Prefix // of flow
	front  int        // bytes of the frame's header in front of each packet
	qps    []*QP      // whose packets these are; stale behind its end
	n      int
	head   int  // where the last packet lies in the arena
	sealed bool // a shorter packet ends the batch
	one    [1][]byte
	middle ib.Template // of the train's next packet

	maxBytes, maxPackets int // of a batch
}

func (t *transmitter) init(l *lane) {
	t.lane, t.maxBytes, t.maxPackets = l, l.caps.Bytes, l.caps.Packets
	t.arena = make([]byte, link.MaxBatch+link.MaxPackets*(ib.MaxHeaderLen+8))
	t.tx.Pieces = make([][]byte, 0, 4*link.MaxPackets)
	t.qps = make([]*QP, 0, link.MaxPackets)
}

// add hands a packet or train over in memory, or appends its packets to the
// batch. It returns how many there were; a train in memory is one.
func (t *transmitter) add(q *QP, f *txFlow, o *machine.Out) int {
	path := o.Path
	if path == nil {
		path = &q.Attr.Path
	}
	class := frame.Class{TrafficClass: path.TrafficClass &^ 3, HopLimit: path.HopLimit, ServiceLevel: path.ServiceLevel}
	if o.Markable { // CA17-5: 00 where nobody slows down for marks
		class.TrafficClass |= ect0
		o.Markable = false
	}
	if class.HopLimit == 0 {
		class.HopLimit = defaultHopLimit
	}
	o.Pad = ib.PadLen(o.Len)
	o.PKey = DefaultPKey
	if to := t.lane.localLane(f, o.DestQPN); to != nil {
		t.lane.hand(to, q, f, o, class)
		return 1
	}
	if s := t.lane.hostSender(f, o.DestQPN); s != nil {
		t.lane.post(s, q, f, o, class)
		return 1
	}
	if f.memoryOnly { // and that path has gone
		q.sendError = reason.Detail{Reason: reason.HostClosed}
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
		t.middle.Follow(t.arena[t.head+t.front:])
		for i+1 < o.Train-1 && t.next(o, i+1, mtu) {
			i++
		}
	}
	clear(t.lane.part.Pieces)
}

// next appends packet i of a train, neither its first nor its last, whose header the
// template has. It does nothing and reports false if the packet does not fit into the
// batch, or is in several pieces.
func (t *transmitter) next(o *machine.Out, i, mtu int) bool {
	front, length := t.front, ib.BTHLen+mtu+ib.ICRCLen
	if t.n == 0 || front+length != t.tx.Size || !t.fits(front+length) || len(o.Pieces) != 1 || t.lane.dev.Trace.On() {
		return false
	}
	start, end := t.used, t.used+front+ib.BTHLen
	if front > 0 {
		copy(t.arena[start:], t.flow.Header(length))
	}
	t.middle.Put(t.arena[end-ib.BTHLen:])
	t.middle.Next()
	t.one[0] = o.Pieces[0][i*mtu : (i+1)*mtu]
	t.body(start, end, length, t.one[:], 0, o.Opcode.Info().Kind == ib.KindReadResponse)
	t.one[0] = nil
	t.tx.Bytes += t.tx.Size
	t.n++
	return true
}

// append adds a packet to the batch. A batch that it does not fit into is sent before.
func (t *transmitter) append(q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	length := o.HeaderLen() + o.Len + int(o.Pad) + ib.ICRCLen
	size := f.HeaderLen() + length
	if t.n > 0 && (t.sealed || f != t.flow || size > t.tx.Size || !t.fits(size) || class != t.class) {
		t.flush()
	}
	if t.n == 0 {
		t.begin(f, size, class)
	}
	if n := len(t.qps); n == 0 || t.qps[n-1] != q {
		t.qps = append(t.qps, q)
	}
	first := len(t.tx.Pieces)
	start := t.used
	t.put(o, length)
	if t.lane.dev.Trace.On() {
		t.emit(q, o, start, first)
	}
	t.sealed = size < t.tx.Size
	t.tx.Bytes += size
	t.n++
}

// begin begins a batch.
func (t *transmitter) begin(f *txFlow, size int, class frame.Class) {
	t.flow, t.class, t.crc, t.front = f, class, &f.CRC, f.HeaderLen()
	t.tx.Flow, t.tx.Size, t.tx.TOS, t.tx.HopLimit = f.Link, size, class.TrafficClass, class.HopLimit
	if f.Class != class {
		t.lane.net.Classify(f.Flow, class)
	}
}

// fits reports whether the batch has room for one more packet.
func (t *transmitter) fits(size int) bool {
	return t.tx.Bytes+size <= t.maxBytes && t.n < t.maxPackets
}

// put writes the packet, with length bytes from BTH to ICRC.
func (t *transmitter) put(o *machine.Out, length int) {
	end := t.used
	if t.front > 0 {
		end += copy(t.arena[end:], t.flow.Header(length))
	}
	end += o.PutHeaders(t.arena[end:])
	t.body(t.used, end, length, o.Pieces, o.Pad, o.Opcode.Info().Kind == ib.KindReadResponse)
}

// body completes the packet whose headers lie from start to end in the arena, beginning
// with the frame's. The packet then lies there as a whole, or as its
// headers and trailer around the payload's own memory. Data that others may be changing
// while it is sent, as READ responses read it, is copied before its CRC is computed.
func (t *transmitter) body(start, end, length int, pieces [][]byte, pad uint8, changing bool) {
	t.head = start
	behind := start + t.front + ib.BTHLen
	bth := t.arena[behind-ib.BTHLen : behind]
	var crc uint32
	if length <= stageLimit || changing {
		end = t.stage(end, pieces, pad)
		crc = t.crc.Join(length, t.id(), bth, t.arena[behind:end])
	} else {
		t.piece(start, end)
		t.tx.Pieces = append(t.tx.Pieces, pieces...)
		if first := t.arena[behind:end]; len(first) > 0 {
			crc = t.crc.Join(length, t.id(), bth, first)
		} else {
			crc = t.crc.Join(length, t.id(), bth, pieces[0])
			pieces = pieces[1:]
		}
		for _, p := range pieces {
			crc = ib.Extend(crc, p)
		}
		start = end
		end = t.pad(end, pad)
		crc = ib.Extend(crc, t.arena[start:end])
	}
	ib.PutICRC(t.arena[end:], crc)
	end += ib.ICRCLen
	t.piece(start, end)
	t.used = end
}

// id is the number that the packet being added will leave with.
func (t *transmitter) id() uint16 { return t.flow.ID(t.n) }

// stage copies a payload with its padding to the arena, and returns where it ends.
func (t *transmitter) stage(at int, pieces [][]byte, pad uint8) int {
	for _, p := range pieces {
		at += copy(t.arena[at:], p)
	}
	return t.pad(at, pad)
}

func (t *transmitter) pad(at int, n uint8) int {
	for range n {
		t.arena[at] = 0
		at++
	}
	return at
}

// piece adds a part of the arena to the batch. A part that continues the last piece
// lengthens it.
func (t *transmitter) piece(start, end int) {
	if n := len(t.tx.Pieces) - 1; n >= 0 && start > 0 {
		last := t.tx.Pieces[n]
		if len(last) > 0 && &last[len(last)-1] == &t.arena[start-1] {
			t.tx.Pieces[n] = t.arena[start-len(last) : end]
			return
		}
	}
	t.tx.Pieces = append(t.tx.Pieces, t.arena[start:end])
}

// emit traces the packet just added: it lies at start in the arena.
func (t *transmitter) emit(q *QP, o *machine.Out, start, first int) {
	h, front := o.HeaderLen(), t.front
	e := trace.Event{Kind: trace.Sent, Time: time.Now(), QPN: q.QPN, Packet: t.flow.traced(t.class)}
	e.Packet.ID, e.Packet.Header = t.id(), t.arena[start:start+front]
	start += front
	if len(t.tx.Pieces) > first && t.used-start < h+o.Len+int(o.Pad)+ib.ICRCLen {
		e.Packet.Pieces = append(e.Packet.Pieces, t.arena[start:start+h])
		e.Packet.Pieces = append(e.Packet.Pieces, o.Pieces...)
		e.Packet.Pieces = append(e.Packet.Pieces, t.arena[start+h:t.used])
	} else {
		e.Packet.Pieces = append(e.Packet.Pieces, t.arena[start:t.used])
	}
	t.lane.dev.Trace.Emit(&e)
}

// flush sends the batch.
func (t *transmitter) flush() {
	if t.n == 0 {
		return
	}
	if err := t.lane.packets.Send(&t.tx); err != nil {
		d := link.SendDetail(err, t.tx.Bytes)
		for _, q := range t.qps {
			q.sendError = d
		}
		t.lane.dev.Trace.Refuse(t.qps[0].QPN, d)
		t.lane.reports.pending = t.lane.reports.link != nil
	}
	clear(t.tx.Pieces)
	t.tx.Pieces, t.tx.Bytes, t.qps = t.tx.Pieces[:0], 0, t.qps[:0]
	t.n, t.used, t.sealed = 0, 0, false
}
