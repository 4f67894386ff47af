package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// duplicate answers a request that was executed before (IBTA 9.7.5.1, C9-105). SENDs and
// WRITEs are acknowledged again if they ask for it. READs are executed again and atomics
// answered from what was kept while they are remembered; otherwise they are dropped.
func (r *Responder) duplicate(in *machine.In, info *ib.Info) {
	d := reason.Detail{Reason: reason.SequenceDuplicate, Expected: uint64(r.expected), Found: uint64(in.PSN)}
	switch info.Kind {
	case ib.KindSend, ib.KindWrite:
		switch {
		case r.c.Selective():
			r.countDuplicate()
		case in.AckReq:
			r.acknowledgeAgain(in.PSN)
		}
	case ib.KindReadRequest:
		if !r.readAgain(in) {
			d.Reason = reason.SequenceDuplicateUnknown
		}
	default:
		res := r.history.lookup(in.PSN)
		if res == nil || !res.atomic || res.opcode != in.Opcode {
			d.Reason = reason.SequenceDuplicateUnknown
			break
		}
		r.history.owe(res)
	}
	r.c.Refuse(d)
}

// acknowledgeAgain owes an acknowledge up to p, the PSN of a duplicate that asks for one.
// C9-105 would allow the newest PSN for any duplicate. Nothing newer than p is
// acknowledged for two reasons. It would claim that READs and atomics behind p were
// answered, which only their responses can say. And Linux's rxe takes the second
// acknowledge of a message's last PSN for the end of that message even while it is still
// repeating it; with a full send queue it then finds the producer's index where its own
// stands, and sends nothing any more. Acknowledges of the last packet cover those before
// it (IBTA 9.7.5.1.2), so packets that do not ask need none.
func (a *answers) acknowledgeAgain(p psn.PSN) {
	if !a.ack.due || p.After(a.ack.psn) {
		a.ack = ack{due: true, psn: p}
	}
}

// readAgain owes the answer to a duplicate READ: to all of one that is remembered, or to
// a part of it (IBTA 9.7.5.1). The key is checked again. It reports whether the READ is
// remembered.
func (a *answers) readAgain(in *machine.In) bool {
	res := a.history.lookup(in.PSN)
	if res == nil || res.atomic {
		return false
	}
	h := &in.RETH
	off := uint64(in.PSN.Sub(res.first)) << a.shift
	if h.RKey != res.rkey || h.Addr != res.addr+off || off+uint64(h.Length) > uint64(res.length) ||
		h.Length == 0 && res.length != 0 {
		return false
	}
	var region *memory.Region
	if h.Length != 0 {
		var d reason.Detail
		// A key that has become invalid since is refused without a NAK: the duplicate may
		// be the network's, of a READ that was answered long ago. But if the answer was taken
		// back, the peer asks for what it never had.
		if region, d = a.find(res.pd, h.RKey, h.Addr, uint64(h.Length), qp.RemoteRead); d.Reason != reason.None {
			if res.revoked {
				a.giveUp(in.PSN, d)
				return true
			}
			a.c.Refuse(d)
			return false
		}
	}
	if a.c.Selective() && h.Length != 0 {
		a.partAgain(res, uint32(off), uint32(off)+h.Length, region)
		return true
	}
	res.region = region
	res.from = uint32(off)
	res.pos, res.to = res.from, res.from+h.Length
	a.history.owe(res)
	return true
}

// Revoked notes that READ responses which were sent may have been taken back before the peer
// had them.
func (a *answers) Revoked() { a.history.revoked() }

// maxParts bounds the list of parts; the peer asks again for what is left out.
const maxParts = 256

// partAgain owes the answer to a part of a READ, in addition to what the answer to the
// READ itself has not come to yet.
func (a *answers) partAgain(res *resource, from, to uint32, region *memory.Region) {
	if res.pending && to <= res.to && to > res.pos {
		if to = res.pos; from >= to {
			return // it will be sent
		}
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.first == res.first && p.pos <= from && to <= p.to {
			return
		}
	}
	if len(a.parts) >= maxParts {
		return
	}
	if a.parts == nil {
		a.parts = a.store.partList()
	}
	a.parts = append(a.parts, resource{
		addr: res.addr, region: region, first: res.first, msn: res.msn, from: from, pos: from, to: to,
	})
}

// dropParts forgets the parts.
func (a *answers) dropParts() {
	if a.parts != nil {
		a.store.returnParts(a.parts)
		a.parts = nil
	}
}
