package adapter

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

const (
	// stageLimit is the packet length up to which header, payload and ICRC are
	// copied together; longer ones leave as a gather list. Measured: copying
	// wins up to about 1.5 KB.
	stageLimit = 1536

	// ect0 marks packets as ECN-capable (RFC 3168; annex A17.3.1.1.3,
	// A17.9.3, CA17-5).
	ect0 = 0x02

	defaultHopLimit = 64

	// maxDatagramFlows bounds the flows kept open for datagrams.
	maxDatagramFlows = 256
)

// A txFlow is an open flow with its pseudo-header.
type txFlow struct {
	flow *link.Flow
	head ib.PseudoHeader
}

func newTxFlow(f *link.Flow) *txFlow {
	return &txFlow{flow: f, head: ib.NewPseudoHeader(f.Src, f.Dst)}
}

type flowKey struct {
	dst   netip.AddrPort
	label uint32
}

// flowLabel is the hash of a flow that its source port is derived from: the
// address's own flow label or, without one, the queue pair numbers, as Linux
// does it (rdma_calc_flow_label).
func flowLabel(path *qp.Path, local, remote uint32) uint32 {
	v := uint64(path.FlowLabel)
	if v == 0 {
		v = uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
	}
	return uint32(v) & 0xfffff
}

// flowOf is the flow that a packet of q to path leaves on: the connection's
// own, or for datagrams one per destination. It is nil where none can be had.
func (l *lane) flowOf(q *QP, path *qp.Path) *txFlow {
	if q.flow != nil {
		return q.flow
	}
	if path == nil {
		return nil
	}
	key := flowKey{path.Dst, flowLabel(path, q.QPN, 0xffffff)}
	if f := l.flows[key]; f != nil {
		return f
	}
	if len(l.flows) >= maxDatagramFlows {
		l.tx.flush()
		for k, f := range l.flows {
			l.link.CloseFlow(f.flow)
			delete(l.flows, k)
		}
	}
	f, err := l.link.OpenFlow(key.dst, key.label)
	if err != nil {
		l.dev.Trace.Refuse(q.QPN, sendDetail(err, 0))
		return nil
	}
	t := newTxFlow(f)
	l.flows[key] = t
	return t
}

// A transmitter gathers packets of one flow and one size into a batch. It owns
// the arena that headers, trailers and short packets are written to; payloads
// that it gathers belong to the machines, and leave with flush before any
// machine sees another packet.
type transmitter struct {
	lane   *lane
	arena  []byte
	used   int
	tx     link.Tx
	flow   *txFlow
	qp     *QP
	n      int
	sealed bool // a shorter packet ends the batch
}

func (t *transmitter) init(l *lane) {
	t.lane = l
	t.arena = make([]byte, link.MaxBatch+link.MaxPackets*(ib.MaxHeaderLen+8))
	t.tx.Pieces = make([][]byte, 0, 4*link.MaxPackets)
}

// add appends a packet to the batch, sending the batch before it where the
// packet does not fit into it.
func (t *transmitter) add(q *QP, f *txFlow, o *machine.Out) {
	path := o.Path
	if path == nil {
		path = &q.Attr.Path
	}
	tos, hops := path.TrafficClass&^3, path.HopLimit
	if o.Markable { // CA17-5: 00 where nobody slows down for marks
		tos |= ect0
		o.Markable = false
	}
	if hops == 0 {
		hops = defaultHopLimit
	}
	o.Pad = ib.PadLen(o.Len)
	o.PKey = DefaultPKey
	size := o.HeaderLen() + o.Len + int(o.Pad) + ib.ICRCLen
	if t.n > 0 && (t.sealed || f != t.flow || size > t.tx.Size || t.tx.Bytes+size > link.MaxBatch ||
		t.n >= link.MaxPackets || tos != t.tx.TOS || hops != t.tx.HopLimit) {
		t.flush()
	}
	if t.n == 0 {
		t.flow, t.qp, t.tx.Flow, t.tx.Size, t.tx.TOS, t.tx.HopLimit = f, q, f.flow, size, tos, hops
	}
	first := len(t.tx.Pieces)
	start := t.used
	t.put(o, size)
	if t.lane.dev.Trace.On() {
		t.emit(q, o, start, first)
	}
	t.sealed = size < t.tx.Size
	t.tx.Bytes += size
	t.n++
}

// put writes the packet: into the arena as a whole, or its header and trailer
// around the payload's own memory. Data that others may be changing while it
// is sent, as READ responses read it, is copied before its CRC is computed.
func (t *transmitter) put(o *machine.Out, size int) {
	start := t.used
	end := start + o.PutHeaders(t.arena[start:])
	crc := t.flow.head.Begin(size, t.id(), t.arena[start:end])
	if size <= stageLimit || o.Opcode.Info().Kind == ib.KindReadResponse {
		body := end
		for _, p := range o.Pieces {
			end += copy(t.arena[end:], p)
		}
		end = t.pad(end, o.Pad)
		crc = ib.Extend(crc, t.arena[body:end])
	} else {
		t.piece(start, end)
		for _, p := range o.Pieces {
			crc = ib.Extend(crc, p)
			t.tx.Pieces = append(t.tx.Pieces, p)
		}
		start = end
		end = t.pad(end, o.Pad)
		crc = ib.Extend(crc, t.arena[start:end])
	}
	ib.PutICRC(t.arena[end:], crc)
	end += ib.ICRCLen
	t.piece(start, end)
	t.used = end
}

// id is the IPv4 identification that the packet being added will leave with.
func (t *transmitter) id() uint16 {
	if s := t.flow.flow.Segments; s != 0 {
		return uint16(t.n % s)
	}
	return uint16(t.n)
}

func (t *transmitter) pad(at int, n uint8) int {
	for range n {
		t.arena[at] = 0
		at++
	}
	return at
}

// piece adds a part of the arena to the batch; one that continues the last
// piece lengthens it.
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

// emit traces the packet just added: its header lies at start in the arena.
func (t *transmitter) emit(q *QP, o *machine.Out, start, first int) {
	h := o.HeaderLen()
	e := trace.Event{Kind: trace.Sent, Time: time.Now(), QPN: q.QPN}
	e.Packet = trace.Packet{Src: t.flow.flow.Src, Dst: t.flow.flow.Dst, TOS: t.tx.TOS, TTL: t.tx.HopLimit, ID: t.id()}
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
	if err := t.lane.link.Send(&t.tx); err != nil {
		d := sendDetail(err, t.tx.Bytes)
		t.qp.sendError = d
		t.lane.dev.Trace.Refuse(t.qp.QPN, d)
	}
	clear(t.tx.Pieces)
	t.tx.Pieces, t.tx.Bytes = t.tx.Pieces[:0], 0
	t.n, t.used, t.sealed = 0, 0, false
}

func sendDetail(err error, bytes int) reason.Detail {
	d := reason.Detail{Reason: reason.SendFailed, Expected: uint64(bytes)}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
		if no == syscall.ECONNREFUSED {
			d.Reason = reason.SendRefused
		}
	}
	return d
}
