package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
)

// A resource is what the responder remembers of a READ or an atomic, to answer it and a
// duplicate of it (IBTA 9.7.5.1, "responder resources").
type resource struct {
	addr   uint64
	value  uint64         // of an atomic: what the memory held before
	region *memory.Region // while a READ is answered
	rkey   uint32
	pd     uint32 // that the request was for
	length uint32
	count  uint32 // PSNs
	first  psn.PSN
	msn    psn.PSN

	// The answer being sent: bytes from up to to of the READ, now at pos.
	from, pos, to uint32
	loaded        uint32 // its bytes were read up to here

	opcode  ib.Opcode
	atomic  bool
	pending bool // there is something to send
	again   bool // for a duplicate: the peer may have received it already
	revoked bool // some of the answer may have been taken back before the peer had it
}

// read returns the next n bytes of the answer. It reads more of them at once, as reading
// the memory of another process costs a call.
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

// A history is a ring of resources, by PSN. There are max_dest_rd_atomic of them; the
// oldest makes room for the next.
type history struct {
	ring    []resource
	newest  int // index behind the youngest
	held    int
	pending int // resources with an answer to send
	current int // the one being answered, noResource if it is to be found
}

const noResource = -1

// revoked notes that answers which were sent may have been taken back.
func (h *history) revoked() {
	for i := range h.ring {
		h.ring[i].revoked = true
	}
}

// drop forgets the answers that are owed.
func (h *history) drop() {
	h.pending, h.current = 0, noResource
	for i := range h.ring {
		h.ring[i].pending, h.ring[i].region = false, nil
	}
}

// vacant reports whether a new READ or atomic can be remembered: there is a place at all,
// and the oldest resource was answered. The peer sends no more of them than agreed (IBTA
// 9.4.4). The answer to a duplicate is given up when the peer has gone on.
//
// With keep the peer asks for one more than agreed: an answer before it was lost, and
// those behind the lost one must not push it out.
func (h *history) vacant(depth int, keep bool) bool {
	if depth == 0 {
		return false
	}
	if len(h.ring) < depth {
		*h = history{ring: make([]resource, depth), current: noResource}
	}
	if h.held < len(h.ring) {
		return true
	}
	if keep && len(h.ring) < conn.KeepFactor*depth {
		h.grow(min(2*len(h.ring), conn.KeepFactor*depth))
		return true
	}
	return !h.ring[h.newest].pending || h.ring[h.newest].again
}

// grow makes room for n resources.
func (h *history) grow(n int) {
	ring := make([]resource, n)
	k := copy(ring, h.ring[h.newest:])
	copy(ring[k:], h.ring[:h.newest])
	h.ring, h.newest, h.current = ring, h.held, noResource
}

// remember adds a new READ or atomic, whose answer is owed.
func (h *history) remember(in *machine.In, msn psn.PSN) *resource {
	res := &h.ring[h.newest]
	if res.pending {
		h.pending--
	}
	*res = resource{first: in.PSN, count: 1, msn: msn, opcode: in.Opcode, pending: true}
	if h.current == h.newest {
		h.current = noResource
	}
	if h.newest++; h.newest == len(h.ring) {
		h.newest = 0
	}
	h.held = min(h.held+1, len(h.ring))
	h.pending++
	return res
}

// oldest is the resource to answer next; there must be one. Answers leave by PSN.
func (h *history) oldest() *resource {
	for i := h.held; h.current < 0 && i > 0; i-- {
		at := h.newest - i
		if at < 0 {
			at += len(h.ring)
		}
		if h.ring[at].pending {
			h.current = at
		}
	}
	return &h.ring[h.current]
}

// lookup finds the resource that a PSN belongs to.
func (h *history) lookup(p psn.PSN) *resource {
	for i := range h.held {
		res := &h.ring[i]
		if d := p.Sub(res.first); d >= 0 && uint32(d) < res.count {
			return res
		}
	}
	return nil
}

// owe owes an answer once more.
func (h *history) owe(res *resource) {
	res.again = true
	h.current = noResource
	if !res.pending {
		res.pending = true
		h.pending++
	}
}

// answered notes that an answer was sent to its end.
func (h *history) answered(res *resource) {
	res.pending, res.region = false, nil
	h.pending--
	h.current = noResource
}
