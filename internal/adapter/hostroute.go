package adapter

import (
	"time"

	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/frame"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/wire/ib"
)

// A hostItem is what the routes of a lane to peers on this host share: room for a packet that is
// being sent.
type hostItem struct {
	hostpath.Item
	headers [hostmem.MaxHeader]byte
	one     [1][]byte
}

// A hostRoute hands packets to one lane of a peer on this host, through a ring in memory that both
// have mapped.
type hostRoute struct {
	item   *hostItem
	sender *hostpath.Sender
}

// Path implements route.
func (*hostRoute) Path() object.Path { return object.PathSameHost }

// Prepare implements route.
func (r *hostRoute) Prepare(q *QP, o *machine.Out) {
	o.Longest, o.Whole, o.Lossless = 0, false, true
	if q.transport.Acknowledged {
		o.Longest, o.Whole = r.sender.Longest(q.Attr.PathMTU), true
	}
}

// Admit implements route.
func (r *hostRoute) Admit(now time.Duration, q *QP) bool { return r.sender.Admit(now, &q.entry) }

// Send implements route. A peer with a trace gets single packets as they are on a network.
func (r *hostRoute) Send(now time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, limit int) int {
	if o.Train <= 1 && r.sender.WantICRC() {
		return sendWhole(r, q, f, o, class)
	}
	x := r.item
	x.Head = hostmem.Head{TrafficClass: class.TrafficClass, HopLimit: class.HopLimit, Port: f.Local.Port(), Train: uint16(o.Train)}
	x.Header, x.Pieces, x.Len, x.Stable = x.headers[:o.PutHeaders(x.headers[:])], o.Pieces, o.Len, q.transport.Acknowledged
	x.Region = o.Region
	posted := r.sender.Post(&x.Item)
	x.Pieces, x.Region = nil, nil
	if !posted {
		for i := range o.Train {
			r.Send(now, q, f, q.packets.partOf(q, o, i), class, 1)
		}
		clear(q.packets.part.Pieces)
		return 1
	}
	if o.Train == 1 && q.can.Follower != nil {
		return 1 + r.follow(now, q, o, limit-1)
	}
	return 1
}

// follow sends up to limit messages of q of one packet that follow o, and returns how many there were.
func (r *hostRoute) follow(now time.Duration, q *QP, o *machine.Out, limit int) (n int) {
	s, x := r.sender, r.item
	like := (*ib.WriteHeader)(x.headers[:]) // Follow uses no opcodes but those of SEND and WRITE
	header, write := len(x.Header), o.Opcode == ib.RCWriteOnly
	bytes := 0
	x.Row = true
	for n < limit && s.Admit(now, &q.entry) && q.can.Follower.Follow(now, o) {
		o.Pad = ib.PadLen(o.Len)
		if write {
			if b := s.Slot(ib.BTHLen + ib.RETHLen + o.Len); b != nil {
				o.PutWrite((*ib.WriteHeader)(b), like)
				copy(b[len(like):], o.Pieces[0])
				s.Append(&x.Head, len(like), o.Len)
				n++
				bytes += o.Len
				continue
			}
			o.PutWrite((*ib.WriteHeader)(x.headers[:]), like)
			x.Pieces, x.Len = o.Pieces, o.Len
			s.Post(&x.Item)
		} else if slot := s.Slot(header + o.Len); slot != nil {
			o.PutSend((*[ib.BTHLen]byte)(slot), (*[ib.BTHLen]byte)(like[:]))
			copy(slot[header:], o.Pieces[0])
			s.Append(&x.Head, header, o.Len)
		} else {
			o.PutSend((*[ib.BTHLen]byte)(x.headers[:]), (*[ib.BTHLen]byte)(like[:]))
			x.Pieces, x.Len = o.Pieces, o.Len
			s.Post(&x.Item)
		}
		n++
		bytes += o.Len
	}
	s.End()
	x.Row = false
	q.packets.traffic.Sent += uint64(bytes)
	q.packets.traffic.SentPackets += uint64(n)
	q.packets.recorder.Continue(now, bytes, n)
	x.Pieces = nil
	return n
}

// Stamp implements route.
func (*hostRoute) Stamp(p *packet) { p.stamp(0) }

// Put implements route.
func (r *hostRoute) Put(p *packet) {
	x := r.item
	x.Head = hostmem.Head{Kind: hostmem.Packet, TrafficClass: p.class.TrafficClass, HopLimit: p.class.HopLimit, Port: p.flow.Local.Port()}
	x.Header, x.Len, x.Stable = p.header, len(p.data), false
	x.one[0] = p.data
	x.Pieces = x.one[:]
	r.sender.Post(&x.Item)
	x.one[0], x.Pieces = nil, nil
}
