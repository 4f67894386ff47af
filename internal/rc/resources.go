package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A resource is what the responder remembers of a READ or an atomic, so that
// it can answer it and a duplicate of it (IBTA 9.7.5.1). There are
// max_dest_rd_atomic of them; the oldest makes room for the next.
type resource struct {
	addr   uint64
	value  uint64         // an atomic's: what the memory held before
	region *memory.Region // while a READ is answered
	rkey   uint32
	length uint32
	count  uint32 // PSNs
	first  psn.PSN
	msn    psn.PSN

	// The answer being sent: bytes from up to to of the READ, now at pos.
	from, pos, to uint32
	loaded        uint32 // up to where its bytes were read

	opcode  ib.Opcode
	atomic  bool
	pending bool // there is something to send
	again   bool // for a duplicate: the peer may have got it already
}

// read gives the next n bytes of the answer. More of them are read at once: what
// the memory of another process costs is calls.
func (res *resource) read(n uint32) []byte {
	addr := res.addr + uint64(res.pos)
	if res.pos != res.from && res.pos+n <= res.loaded {
		return res.region.Bytes(addr, int(n))
	}
	run := min(res.to-res.pos, max(n, memory.Ahead))
	b := res.region.Read(addr, int(run))
	if b == nil {
		return nil
	}
	res.loaded = res.pos + run
	return b[:n:n]
}

// vacant tells whether a new READ or atomic can be remembered: there is a
// place at all, and the oldest resource was answered. The peer sends no more
// of them than it was told to (IBTA 9.4.4); the answer to a duplicate is
// given up when the peer has gone on.
//
// With keep the peer asks to remember one more than that: an answer before it
// was lost, and those behind the lost one must not push it out.
func (r *responder) vacant(keep bool) bool {
	depth := int(r.p.Attr.MaxDestRdAtomic)
	if depth == 0 {
		return false
	}
	if len(r.ring) < depth {
		r.ring = make([]resource, depth)
		r.newest, r.held, r.pending, r.current = 0, 0, 0, -1
	}
	if r.held < len(r.ring) {
		return true
	}
	if keep && r.q.selective() && len(r.ring) < keepFactor*depth {
		r.grow(min(2*len(r.ring), keepFactor*depth))
		return true
	}
	return !r.ring[r.newest].pending || r.ring[r.newest].again
}

// grow makes the ring one of n resources.
func (r *responder) grow(n int) {
	ring := make([]resource, n)
	k := copy(ring, r.ring[r.newest:])
	copy(ring[k:], r.ring[:r.newest])
	r.ring, r.newest, r.current = ring, r.held, -1
}

// remember remembers a new READ or atomic, and owes its answer.
func (r *responder) remember(in *machine.In) *resource {
	res := &r.ring[r.newest]
	if res.pending {
		r.pending--
	}
	*res = resource{first: in.PSN, count: 1, msn: r.msn, opcode: in.Opcode, pending: true}
	if r.current == r.newest {
		r.current = -1
	}
	if r.newest++; r.newest == len(r.ring) {
		r.newest = 0
	}
	r.held = min(r.held+1, len(r.ring))
	r.pending++
	return res
}

// holdRead remembers a READ. Its PSNs are those of its responses, and it
// counts as completed from now on (IBTA 9.7.7, C9-148).
func (r *responder) holdRead(in *machine.In) {
	r.msn = r.msn.Next()
	res := r.remember(in)
	h := &in.RETH
	res.addr, res.rkey, res.length, res.to, res.region = h.Addr, h.RKey, h.Length, h.Length, r.region
	if h.Length != 0 {
		res.count = (h.Length-1)>>r.shift + 1
	}
	r.region = nil
	r.accepted(in, res.count)
}

// accepted goes on behind a READ or atomic.
func (r *responder) accepted(in *machine.In, count uint32) {
	r.opcode = in.Opcode
	r.expected = in.PSN.Add(int(count))
	r.latest = in.PSN
}

// oldest is the resource to answer next: answers go out by PSN, and resources
// lie in the ring by PSN.
func (r *responder) oldest() *resource {
	for i := r.held; r.current < 0 && i > 0; i-- {
		at := r.newest - i
		if at < 0 {
			at += len(r.ring)
		}
		if r.ring[at].pending {
			r.current = at
		}
	}
	return &r.ring[r.current]
}

// lookup finds the resource that a PSN belongs to.
func (r *responder) lookup(p psn.PSN) *resource {
	for i := range r.held {
		res := &r.ring[i]
		if d := p.Sub(res.first); d >= 0 && uint32(d) < res.count {
			return res
		}
	}
	return nil
}

// duplicate answers a request that was executed before (IBTA 9.7.5.1,
// C9-105): SENDs and WRITEs are acknowledged again where they ask for it. READs
// and atomics are answered again while they are remembered, and dropped
// without an answer otherwise.
func (r *responder) duplicate(in *machine.In, info *ib.Info) {
	d := reason.Detail{Reason: reason.SequenceDuplicate, Expected: uint64(r.expected), Found: uint64(in.PSN)}
	switch info.Kind {
	case ib.KindSend, ib.KindWrite:
		switch {
		case r.q.selective():
			r.again()
		case in.AckReq:
			r.acknowledgeAgain(in.PSN)
		}
	case ib.KindReadRequest:
		if !r.readAgain(in) {
			d.Reason = reason.SequenceDuplicateUnknown
		}
	default:
		res := r.lookup(in.PSN)
		if res == nil || !res.atomic || res.opcode != in.Opcode {
			d.Reason = reason.SequenceDuplicateUnknown
			break
		}
		r.owe(res)
	}
	r.q.refuse(d)
}

// acknowledgeAgain owes an acknowledge up to p, the PSN of a duplicate that
// asks for one. C9-105 would allow the newest PSN for any duplicate, but
// nothing newer than p is said for two reasons: it would claim that READs and
// atomics behind p were answered, which their responses alone can say. And
// Linux's rxe takes the second acknowledge of a message's last PSN for the end
// of that message even while it is still repeating it. With a full send queue
// it then finds the producer's index where its own stands, and sends nothing
// any more. Acknowledges of the last packet cover those before it (IBTA
// 9.7.5.1.2), so packets that do not ask need none.
func (r *responder) acknowledgeAgain(p psn.PSN) {
	if !r.ack || p.After(r.ackPSN) {
		r.ack, r.ackPSN = true, p
	}
}

// readAgain owes the answer to a duplicate READ: to all of one that is
// remembered, or to a part of it (IBTA 9.7.5.1). The key is looked at anew.
func (r *responder) readAgain(in *machine.In) bool {
	res := r.lookup(in.PSN)
	if res == nil || res.atomic {
		return false
	}
	h := &in.RETH
	off := uint64(in.PSN.Sub(res.first)) << r.shift
	if h.RKey != res.rkey || h.Addr != res.addr+off || off+uint64(h.Length) > uint64(res.length) {
		return false
	}
	if h.Length == 0 && res.length != 0 {
		return false
	}
	var region *memory.Region
	if h.Length != 0 {
		var d reason.Detail
		// A key that went away since refuses without a NAK: the duplicate may be
		// the network's, of a READ that was answered long ago.
		if region, d = r.find(h.RKey, h.Addr, uint64(h.Length), qp.RemoteRead); d.Reason != reason.None {
			r.q.refuse(d)
			return false
		}
	}
	if r.q.selective() && h.Length != 0 {
		r.partAgain(res, uint32(off), uint32(off)+h.Length, region)
		return true
	}
	res.region = region
	res.from = uint32(off)
	res.pos, res.to = res.from, res.from+h.Length
	r.owe(res)
	return true
}

// maxParts bounds the list of parts; the peer asks again for what is left out.
const maxParts = 256

// partAgain owes the answer to a part of a READ, beside what the answer to the
// READ itself has not come to yet.
func (r *responder) partAgain(res *resource, from, to uint32, region *memory.Region) {
	if res.pending && to <= res.to && to > res.pos {
		if to = res.pos; from >= to {
			return // on its way
		}
	}
	for i := range r.parts {
		if p := &r.parts[i]; p.first == res.first && p.pos <= from && to <= p.to {
			return
		}
	}
	if len(r.parts) >= maxParts {
		return
	}
	if r.parts == nil {
		r.parts = r.q.store.partList()
	}
	r.parts = append(r.parts, resource{
		addr: res.addr, region: region, first: res.first, msn: res.msn, from: from, pos: from, to: to,
	})
}

// owe puts an answer back on the list.
func (r *responder) owe(res *resource) {
	res.again = true
	r.current = -1
	if !res.pending {
		res.pending = true
		r.pending++
	}
}
