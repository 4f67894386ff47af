package queue

import "unsafe"

// SIWRecvLen returns the length of the memory of a receive queue in siw's layout.
func SIWRecvLen(depth int) int { return SIWDepth(depth) * int(unsafe.Sizeof(SIWRQE{})) }

// SIWRecvRingOn makes a receive queue that siw's driver posts to, on memory of
// at least SIWRecvLen bytes (see SIWSendRingOn). Requests have SIWMaxSGE entries
// at most.
func SIWRecvRingOn(mem []byte, depth int) *RecvRing {
	n := SIWDepth(depth)
	r := NewRecvRing(n, SIWMaxSGE)
	r.siw = &siwReceives{slots: entries[SIWRQE](mem, n)}
	return r
}

// siwReceives is a queue that siw's driver posts to, with the position of the consumer.
type siwReceives struct {
	slots []SIWRQE
	next  uint32
}

// Detach stops using the memory that the driver posts to, like SendRing.Detach.
func (r *RecvRing) Detach() {
	r.siw = nil
	r.detach()
}

// collect copies posted requests, as far as the ring has room.
func (r *RecvRing) collect() {
	s, i := r.siw, r.Ring.Producer()
	for room := r.Depth() - r.Ring.Len(); room > 0; room-- {
		e := &s.slots[s.next&uint32(len(s.slots)-1)]
		flags, sges, _ := e.load()
		if flags&SIWValid == 0 {
			break
		}
		*r.At(i) = RecvWQE{WRID: e.ID, NumSGE: uint32(sges)} // SGEs limits the number
		copy(r.SGERoom(i), e.SGE[:])
		e.release()
		s.next++
		i = r.Next(i)
	}
	r.Publish(i)
}
