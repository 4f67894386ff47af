package uc

import (
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// responder is the message being received.
type responder struct {
	psn         psn.PSN   // expected
	kind        ib.Kind   // of the message, KindNone between messages
	opcode      ib.Opcode // of its last packet
	established bool      // Communication Established was raised
	pos         uint64    // bytes already received
	cursor      memory.Cursor

	origin machine.Origin // the peer's source port
	heard  time.Duration  // when the last packet from it arrived

	// of a WRITE
	region *memory.Region
	addr   uint64
	length uint64
}

// Receive takes a packet. IBTA 9.8.2.2: if anything is wrong with it, its message is
// dropped silently, and the next First or Only begins a new message.
func (q *QP) Receive(now time.Duration, in *machine.In) {
	if d := q.admit(now, in); d.Reason != reason.None {
		q.Host.Refuse(q.Port, d)
		return
	}
	i := in.Opcode.Info()
	if i.Kind == ib.KindCongestion {
		q.notified(now)
		return
	}
	q.notifier.Look(now, in, q.Port)
	expected := q.responder.psn
	q.responder.psn = in.PSN.Next()
	if expected != in.PSN {
		// IBTA 9.8.2.2.1: packets were lost, and with them the message that they belonged
		// to. A message that starts here is complete nevertheless.
		q.Host.Refuse(q.Port, reason.Detail{Reason: reason.SequenceGap, Expected: uint64(expected), Found: uint64(in.PSN)})
		q.abandon()
		if !i.First {
			return
		}
	}
	d := q.checkSequence(i, in)
	for _, check := range [...]func(*QP, *ib.Info, *machine.In) reason.Detail{(*QP).checkOpcode, (*QP).checkResources,
		(*QP).checkLength, (*QP).checkKey, (*QP).execute} {
		if d.Reason != reason.None {
			break
		}
		d = check(q, i, in)
	}
	if d.Reason != reason.None {
		q.Host.Refuse(q.Port, d)
		q.abandon()
	}
}

// abandon drops the message. The receive that it took stays for the next one.
func (q *QP) abandon() {
	r := &q.responder
	r.kind, r.region = ib.KindNone, nil
}

// admit checks state, peer and opcode.
func (q *QP) admit(now time.Duration, in *machine.In) reason.Detail {
	i := in.Opcode.Info()
	switch {
	case !q.Receiving():
		return reason.Detail{Reason: reason.PacketQPState, Expected: uint64(qp.RTR), Found: uint64(q.Attr.State)}
	case i == nil || in.Opcode.Transport() != ib.UC && i.Kind != ib.KindCongestion:
		return reason.Detail{Reason: reason.PacketTransport, Expected: uint64(ib.UC), Found: uint64(in.Opcode.Transport())}
	}
	if peer, src := q.Attr.Path.Dst.Addr().Unmap(), in.Src.Addr().Unmap(); peer != src {
		// IBTA 9.6.1.2.3, A17.4.4.2: a connected queue pair only accepts packets of its peer.
		return reason.Detail{Reason: reason.PacketSource, Expected: low32(peer), Found: low32(src)}
	}
	if !q.genuine(now, i, in) {
		return reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(q.origin.Port()), Found: uint64(in.Src.Port())}
	}
	if q.Attr.State == qp.RTR && !q.established {
		q.established = true // IBTA 11.6.3.1
		q.Host.Event(q.Port, machine.EventCommEst, reason.Detail{})
	}
	return reason.Detail{}
}

// originQuiet is how long no packet must have come from the peer's source port before a packet
// from another port is accepted, whatever its PSN. Without it a peer that changed its port and
// lost a packet would never be accepted again, because nothing is retransmitted here.
const originQuiet = 10 * time.Second

// genuine reports whether a packet can be the peer's by its source port, or by the expected
// PSN: docs/security.md has the rule. A peer that sends nothing else may still send
// notifications.
func (q *QP) genuine(now time.Duration, i *ib.Info, in *machine.In) bool {
	o, port, next := &q.origin, in.Src.Port(), in.PSN == q.responder.psn
	switch {
	case i.Kind == ib.KindCongestion:
		return true
	case o.Is(port):
	case next, o.Known() && now-q.heard >= originQuiet:
		o.Learn(port)
	case o.Known() && !o.Spread():
		return false
	}
	q.heard = now
	return true
}

// low32 returns the last 32 bits of an address, as reasons show it.
func low32(a netip.Addr) uint64 {
	if !a.IsValid() {
		return 0
	}
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}

// checkSequence checks the order of First, Middle and Last (IBTA 9.8.2.2).
func (q *QP) checkSequence(i *ib.Info, in *machine.In) reason.Detail {
	r := &q.responder
	refused := reason.Detail{Reason: reason.OpcodeSequence, Expected: uint64(r.opcode), Found: uint64(in.Opcode)}
	switch {
	case i.First && r.kind != ib.KindNone:
		q.Host.Refuse(q.Port, refused) // the previous message never ended
		q.abandon()
	case !i.First && r.kind != i.Kind:
		return refused
	}
	if i.First {
		r.kind, r.pos = i.Kind, 0
		r.cursor.Restart()
	}
	r.opcode = in.Opcode
	return reason.Detail{}
}

// checkOpcode checks that the queue pair allows the operation.
func (q *QP) checkOpcode(i *ib.Info, _ *machine.In) reason.Detail {
	if i.Kind == ib.KindWrite && q.Attr.Access&qp.RemoteWrite == 0 {
		return reason.Detail{Reason: reason.QPAccess, Expected: uint64(qp.RemoteWrite), Found: uint64(q.Attr.Access)}
	}
	return reason.Detail{}
}

// checkResources takes a receive if the packet needs one: a SEND when it starts, a WRITE
// with immediate data when it ends.
func (q *QP) checkResources(i *ib.Info, _ *machine.In) reason.Detail {
	wants := i.Kind == ib.KindSend && i.First || i.Kind == ib.KindWrite && i.Headers&ib.HasImmDt != 0
	if wants && q.Take() == nil {
		return reason.Detail{Reason: reason.NoReceive, Expected: uint64(q.Attr.MinRNRTimer), Found: uint64(q.responder.psn)}
	}
	return reason.Detail{}
}

// checkLength checks the payload against the path MTU and the segment: First
// and Middle are full, Last is not empty (IBTA 9.8.2.2, C9-92).
func (q *QP) checkLength(i *ib.Info, in *machine.In) reason.Detail {
	n, mtu := len(in.Payload), q.Attr.PathMTU
	switch {
	case n > mtu:
		return reason.Detail{Reason: reason.LengthMTU, Expected: uint64(mtu), Found: uint64(n)}
	case !i.Last && n != mtu:
		return reason.Detail{Reason: reason.LengthShortSegment, Expected: uint64(mtu), Found: uint64(n)}
	case i.Last && !i.First && n == 0:
		return reason.Detail{Reason: reason.LengthShortSegment, Expected: 1, Found: 0}
	}
	if i.Headers&ib.HasRETH != 0 && in.RETH.Length > machine.MaxMessage {
		return reason.Detail{Reason: reason.LengthLimit, Expected: machine.MaxMessage, Found: uint64(in.RETH.Length)}
	}
	return reason.Detail{}
}

// checkKey checks a WRITE's memory: for the whole message on its first packet, and that
// the key is still valid on the others.
func (q *QP) checkKey(i *ib.Info, in *machine.In) reason.Detail {
	r := &q.responder
	if i.Kind != ib.KindWrite {
		return reason.Detail{}
	}
	if i.First {
		r.addr, r.length, r.region = in.RETH.Addr, uint64(in.RETH.Length), nil
		if r.length != 0 { // IBTA C9-88: the key of a message without bytes is not checked
			if r.region = q.Memory.Lookup(in.RETH.RKey); r.region == nil {
				return reason.Detail{Reason: reason.KeyUnknown, Expected: uint64(q.Memory.Count()), Found: uint64(in.RETH.RKey)}
			}
			if d := r.region.CheckRemote(q.PD, q.QPN, r.addr, r.length, qp.RemoteWrite); d.Reason != reason.None {
				return d
			}
		}
	} else if !r.region.Valid() {
		return reason.Detail{Reason: reason.KeyInvalid, Expected: 1, Found: 0}
	}
	left, n := r.length-r.pos, uint64(len(in.Payload))
	switch {
	case n > left || !i.Last && n == left:
		return reason.Detail{Reason: reason.LengthExceedsRETH, Expected: left, Found: n}
	case i.Last && n < left:
		return reason.Detail{Reason: reason.LengthBelowRETH, Expected: left, Found: n}
	}
	return reason.Detail{}
}

// execute writes the payload to its place and completes the message that it ends.
func (q *QP) execute(i *ib.Info, in *machine.In) reason.Detail {
	r := &q.responder
	n := uint64(len(in.Payload))
	if i.Kind == ib.KindSend {
		if r.pos+n > machine.MaxMessage { // IBTA 9.4.3
			return reason.Detail{Reason: reason.LengthLimit, Expected: machine.MaxMessage, Found: r.pos + n}
		}
		if room := q.Take().Length; r.pos+n > room {
			return reason.Detail{Reason: reason.ReceiveTooSmall, Expected: room, Found: r.pos + n}
		}
		if !q.Scatter(&r.cursor, r.pos, in.Payload) {
			q.abandon()
			return reason.Detail{} // reported already, and the state is ERR
		}
	} else if n != 0 {
		// The whole message is known to be inside the region.
		if d := r.region.Put(r.addr+r.pos, in.Payload); d.Reason != reason.None {
			return d
		}
	}
	r.pos += n
	if i.Last {
		q.finish(i, in)
	}
	return reason.Detail{}
}

func (q *QP) finish(i *ib.Info, in *machine.In) {
	r := &q.responder
	flags := uint32(0)
	if i.Headers&ib.HasImmDt != 0 {
		flags = queue.WCImm
	}
	switch {
	case i.Kind == ib.KindSend:
		q.Deliver(queue.WCRecv, r.pos, in, flags)
	case flags != 0:
		q.Deliver(queue.WCRecvRDMAImm, r.pos, in, flags)
	}
	q.abandon() // it is complete
}
