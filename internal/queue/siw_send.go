package queue

import "unsafe"

// SIWSendLen returns the length of the memory of a send queue in siw's layout.
func SIWSendLen(depth int) int { return SIWDepth(depth) * int(unsafe.Sizeof(SIWSQE{})) }

// SIWSendRingOn makes a send queue that siw's driver posts to, in memory that its process
// shares: zeroed, aligned to 8 bytes, of at least SIWSendLen bytes, and kept by the
// caller. Requests have at most SIWMaxSGE entries or SIWMaxInline bytes.
func SIWSendRingOn(mem []byte, depth int) *SendRing {
	n := SIWDepth(depth)
	r := NewSendRing(n, SIWMaxSGE, SIWMaxInline)
	r.siw = &siwSends{slots: entries[SIWSQE](mem, n)}
	return r
}

// siwSends is a queue that siw's driver posts to, with the position of the consumer.
type siwSends struct {
	slots []SIWSQE
	next  uint32
}

// Detach stops using the memory that the driver posts to, siw's or the ring's own, which may
// then be freed. Nothing more is posted. The consumer calls it.
func (r *SendRing) Detach() {
	r.siw = nil
	r.detach()
}

// collect copies posted requests, as far as the ring has room. The driver rings the doorbell
// only if it owns the entry before its new one: it stores the new entry and then reads the
// previous one. This end returns the previous one and then reads the new one. So one of the
// two sees the other's store.
func (r *SendRing) collect() {
	s, i := r.siw, r.Ring.Producer()
	for room := r.Depth() - r.Len(); room > 0; room-- {
		e := &s.slots[s.next&uint32(len(s.slots)-1)]
		flags, sges, op := e.load()
		if flags&SIWValid == 0 {
			break
		}
		r.takeSIW(i, e, flags, sges, op)
		e.release()
		s.next++
		i = r.Next(i)
	}
	r.Publish(i)
}

// siwOp returns an operation of siw's driver. Unknown operations stay unknown, and the queue
// pair refuses them.
func siwOp(op uint8) Op {
	switch op {
	case siwWrite:
		return Write
	case siwRead:
		return Read
	case siwSend:
		return Send
	case siwSendInv:
		return SendInv
	}
	return Op(op) | 1<<8
}

// takeSIW translates a request. The driver's process may change it at any time, so each
// byte is read once.
func (r *SendRing) takeSIW(i uint32, e *SIWSQE, flags uint16, sges, op uint8) {
	w := r.At(i)
	*w = SendWQE{WRID: e.ID, Op: siwOp(op), NumSGE: uint32(sges)}
	switch w.Op {
	case Write, Read:
		*w.RDMA() = RDMA{Addr: e.RAddr, RKey: e.RKey}
	case SendInv:
		w.ImmInv = e.RKey
	}
	w.Flags = siwFlags(flags)
	if w.Op == Read {
		w.Flags &^= Inline
	}
	if w.Flags&Inline == 0 {
		copy(r.SGERoom(i), e.SGE[:])
		return
	}
	w.NumSGE, w.Length = 0, e.SGE[0].Length
	copy(r.InlineRoom(i), unsafe.Slice((*byte)(unsafe.Pointer(&e.SGE[1])), SIWMaxInline))
}

func siwFlags(flags uint16) (f Flags) {
	if flags&SIWInline != 0 {
		f |= Inline
	}
	if flags&SIWSignaled != 0 {
		f |= Signaled
	}
	if flags&SIWSolicited != 0 {
		f |= Solicited
	}
	if flags&SIWReadFence != 0 {
		f |= Fence
	}
	return f
}
