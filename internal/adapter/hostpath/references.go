package hostpath

import (
	"slices"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
)

// A reference says which memory a message that was published refers to.
type reference struct {
	message  uint64 // messages published up to this one
	from, to uint64 // addresses
	key      uint32 // of the region by which the peer reads it, if keyed
	keyed    bool
}

// references are those of one Sender that the peer may not have used yet, oldest first.
type references []reference

// add records the reference of the newest message to a payload. It removes those that the peer has
// used when there is no room, unless they are few.
func (r *references) add(s *hostmem.Sender, payload []byte, region *memory.Region) {
	if n := len(*r); n == cap(*r) {
		if used := r.used(s.Consumed()); used > n/2 {
			*r = slices.Delete(*r, 0, used)
		}
	}
	n := len(*r)
	*r = slices.Grow(*r, 1)[:n+1]
	// The fields are stored where they stay. A copy of a new value is made by wide loads, which wait until the
	// stores before them are in the cache, among them those to the ring, whose line the peer has.
	x, at := &(*r)[n], memory.Addr(payload)
	x.message, x.from, x.to, x.key, x.keyed = s.Sent(), at, at+uint64(len(payload)), 0, false
	if region != nil && region.Kind == memory.MR {
		x.key, x.keyed = region.Key, true
	}
}

// used returns how many of the references are in the first messages.
func (r references) used(consumed uint64) int {
	n, _ := slices.BinarySearchFunc(r, consumed+1, func(x reference, m uint64) int {
		if x.message < m {
			return -1
		}
		return 1
	})
	return n
}

// last returns how many messages were published up to the last one that refers to some memory of a
// region and that is not among the first messages. It returns 0 if there is none. References of READs
// by the keys of other regions do not count: these regions may have the same memory, for other peers.
func (r references) last(consumed uint64, mem []byte, key uint32) uint64 {
	from := memory.Addr(mem)
	to := from + uint64(len(mem))
	for _, x := range slices.Backward(r[r.used(consumed):]) {
		if x.from < to && from < x.to && (!x.keyed || x.key == key) {
			return x.message
		}
	}
	return 0
}

// RevokeRegion revokes the references to the memory of a region that any peer has not used yet. The
// others stay: programs that take regions away while they send do not wait for their own messages.
func (l *Lane) RevokeRegion(r *memory.Region) {
	mem := r.Bytes(r.Base, int(r.Len()))
	for _, p := range l.paths {
		for _, s := range p.senders {
			s.revokeMemory(mem, r)
		}
	}
}

// revokeMemory is Revoke for references to the memory of a region.
func (s *Sender) revokeMemory(mem []byte, r *memory.Region) {
	if len(mem) == 0 || !s.Referring() {
		return
	}
	if n := s.references.last(s.Consumed(), mem, r.Key); n > 0 && !s.use(n) {
		s.revoke()
	}
}
