package queue

import (
	"sync/atomic"
	"unsafe"
)

// SIWCompletionLen returns the length of the memory of a completion queue in siw's
// layout.
func SIWCompletionLen(depth int) int {
	return SIWDepth(depth)*int(unsafe.Sizeof(SIWCQE{})) + int(unsafe.Sizeof(siwControl{}))
}

// SIWCompletionRingOn makes a completion queue that siw's driver polls, on memory
// of at least SIWCompletionLen bytes (see SIWSendRingOn). It has no consumer in
// this process.
func SIWCompletionRingOn(mem []byte, depth int) *CompletionRing {
	n := SIWDepth(depth)
	s := &siwCompletions{slots: entries[SIWCQE](mem, n)}
	s.control = &entries[siwControl](mem[n*int(unsafe.Sizeof(SIWCQE{})):], 1)[0]
	return &CompletionRing{siw: s}
}

// siwCompletions is the queue that siw's driver polls.
type siwCompletions struct {
	slots   []SIWCQE
	next    uint32
	control *siwControl
}

// put writes a completion, unless the driver has not consumed the previous one in its place.
func (s *siwCompletions) put(e *CQE) bool {
	c := &s.slots[s.next&uint32(len(s.slots)-1)]
	if flags, _, _ := c.load(); flags&SIWValid != 0 {
		return false
	}
	flags := uint8(SIWValid)
	c.ID, c.Bytes, c.QPN, c.ImmInv = e.WRID, e.ByteLen, uint64(e.QPN), 0
	if e.Flags&WCWithInv != 0 {
		flags |= siwRemInval
		c.ImmInv = uint64(e.ImmInv)
	}
	c.store(flags, siwOpOf(e.Op), siwStatusOf(e.Status))
	s.next++
	return true
}

// siwOpOf returns the operation that siw's driver knows a completion by.
func siwOpOf(o WCOp) uint8 {
	switch o {
	case WCWrite:
		return siwWrite
	case WCRead:
		return siwRead
	case WCFetchAdd:
		return siwFetchAdd
	case WCCompareSwap:
		return siwCompare
	case WCRecv, WCRecvRDMAImm: // the driver has no immediate data
		return siwReceive
	}
	return siwSend
}

// siwGeneralErr is used for statuses that siw does not have.
const siwGeneralErr = 9

// siwStatuses are siw's numbers (enum siw_wc_status). siw has none for MWBindErr, which means
// a refused local invalidate.
var siwStatuses = [Statuses]uint16{
	LocLenErr: 1, LocProtErr: 2, LocQPOpErr: 3, MWBindErr: 3, WRFlushErr: 4, BadRespErr: 5, LocAccessErr: 6, RemAccessErr: 7, RemInvReqErr: 8,
}

func siwStatusOf(s Status) uint16 {
	if s == Success {
		return 0
	}
	if s < Statuses && siwStatuses[s] != 0 {
		return siwStatuses[s]
	}
	return siwGeneralErr
}

// The arming of a completion queue, as bits of the word of Arm; the numbers are those of enum
// siw_notify_flags.
const (
	Disarmed      = 0
	ArmSolicited  = 1 << 0
	ArmCompletion = 1 << 1
)

// Arm returns the word by which the consumer requests an event, or nil if the consumer makes a
// call instead.
func (r *CompletionRing) Arm() *atomic.Uint32 {
	if r.siw == nil {
		return nil
	}
	return &r.siw.control.arm
}
