package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
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
// If most is more than depth, the peer asks for one more than agreed: the path is long, or an
// answer before it was lost, and those behind the lost one must not push it out.
func (h *history) vacant(depth, most int) bool {
	if depth == 0 {
		return false
	}
	if len(h.ring) < depth {
		h.resize(depth)
	}
	if h.held < len(h.ring) {
		return true
	}
	if len(h.ring) < most {
		h.resize(min(2*len(h.ring), most))
		return true
	}
	return !h.ring[h.newest].pending || h.ring[h.newest].again
}

// resize makes a ring for n resources, which has the youngest of them.
func (h *history) resize(n int) {
	ring := make([]resource, n)
	keep := min(h.held, n)
	for i := range keep {
		ring[i] = h.ring[h.at(keep-i)]
	}
	h.ring, h.newest, h.held, h.current = ring, keep%n, keep, noResource
}

// owed returns how many of the youngest resources there are from the oldest one on that has an answer to send.
func (h *history) owed() (n int) {
	for left := h.pending; left > 0; {
		if n++; h.ring[h.at(n)].pending {
			left--
		}
	}
	return n
}

// at returns the index of the i-th resource from the youngest on, which is the first.
func (h *history) at(i int) int {
	if i > h.newest {
		i -= len(h.ring)
	}
	return h.newest - i
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

// oldest is the resource to answer next; there must be one. Answers leave by PSN. Those that
// are remembered only are mostly older, and there are many of them on a long path.
func (h *history) oldest() *resource {
	if h.current < 0 {
		h.current = h.at(h.owed())
	}
	return &h.ring[h.current]
}

// lookup finds the resource that a PSN belongs to.
func (h *history) lookup(p psn.PSN) *resource {
	for i := 1; i <= h.held; i++ {
		res := &h.ring[h.at(i)]
		if d := p.Sub(res.first); d >= 0 {
			if uint32(d) < res.count {
				return res
			}
			return nil // all others are before it
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
	if h.current == noResource {
		return
	}
	if h.current++; h.current == len(h.ring) {
		h.current = 0
	}
	if h.current == h.newest || !h.ring[h.current].pending {
		h.current = noResource
	}
}
