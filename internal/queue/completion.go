package queue

import (
	"encoding/binary"
	"unsafe"

	"softrdma/internal/reason"
)

// A Status is the status of a completion; names and numbers are those of ibv_wc_status.
type Status uint32

// The statuses.
const (
	Success Status = iota
	LocLenErr
	LocQPOpErr
	LocEECOpErr
	LocProtErr
	WRFlushErr
	MWBindErr
	BadRespErr
	LocAccessErr
	RemInvReqErr
	RemAccessErr
	RemOpErr
	RetryExcErr
	RNRRetryExcErr
	LocRDDViolErr
	RemInvRDReqErr
	RemAbortErr
	InvEECNErr
	InvEECStateErr
	FatalErr
	RespTimeoutErr
	GeneralErr
)

// A WCOp is a completed operation; the numbers are those of ibv_wc_opcode.
type WCOp uint32

// The completed operations.
const (
	WCSend        WCOp = 0
	WCWrite       WCOp = 1
	WCRead        WCOp = 2
	WCCompareSwap WCOp = 3
	WCFetchAdd    WCOp = 4
	WCBindMW      WCOp = 5
	WCLocalInv    WCOp = 6
	WCFlush       WCOp = 8
	WCAtomicWrite WCOp = 9
	WCRecv        WCOp = 1 << 7
	WCRecvRDMAImm WCOp = 1<<7 + 1
)

// Completed returns the operation in the completion of a request.
func (o Op) Completed() WCOp {
	switch o {
	case Write, WriteImm:
		return WCWrite
	case Read:
		return WCRead
	case CompareSwap:
		return WCCompareSwap
	case FetchAdd:
		return WCFetchAdd
	case LocalInv:
		return WCLocalInv
	case Flush:
		return WCFlush
	case AtomicWrite:
		return WCAtomicWrite
	case BindMW:
		return WCBindMW
	}
	return WCSend
}

// Flags of a completion; the numbers are those of ibv_wc_flags.
const (
	WCGRH     uint32 = 1 << 0
	WCImm     uint32 = 1 << 1
	WCWithInv uint32 = 1 << 3
)

// SL of a received datagram is the kind of its network header (IBTA A17.4.5.1), as
// adapters encode it: a UDP header, and IPv6 or IPv4 before it.
const (
	PacketIPv6 uint8 = 8 | 1
	PacketIPv4 uint8 = 8 | 2
)

// A CQE is ib_uverbs_wc, followed by the numbers of the reason in the rest of the ring's slot.
type CQE struct {
	WRID      uint64
	Status    Status
	Op        WCOp
	Reason    reason.Reason // vendor_err; see Reasons
	ByteLen   uint32
	ImmInv    uint32 // immediate data in network order, or the invalidated R_Key
	QPN       uint32
	SrcQPN    uint32
	Flags     uint32
	PKeyIndex uint16
	SLID      uint16
	SL        uint8
	DLIDPath  uint8
	PortNum   uint8
	Solicited uint8 // reserved in ib_uverbs_wc: the completion is a solicited event
	Expected  uint64
	Found     uint64
}

// SetReasons sets why the request failed, and what the peer says about it, None if it says
// nothing. The peer's reason is the one that programs see as vendor_err: it explains more. This
// side's is then in fields that a failed completion does not use, with 32 bits of its numbers.
func (e *CQE) SetReasons(own, peer reason.Detail) {
	e.PKeyIndex, e.ImmInv, e.SrcQPN = 0, 0, 0
	if peer.Reason != reason.None {
		e.PKeyIndex, e.ImmInv, e.SrcQPN = uint16(own.Reason), uint32(own.Expected), uint32(own.Found)
		own = peer
	}
	e.Reason, e.Expected, e.Found = own.Reason, own.Expected, own.Found
}

// Reasons returns what SetReasons has set.
func (e *CQE) Reasons() (own, peer reason.Detail) {
	own = reason.Detail{Reason: e.Reason, Expected: e.Expected, Found: e.Found}
	if e.Status == Success || e.PKeyIndex == 0 {
		return own, peer
	}
	return reason.Detail{Reason: reason.Reason(e.PKeyIndex), Expected: uint64(e.ImmInv), Found: uint64(e.SrcQPN)}, own
}

// CQELen is the length of a completion.
const CQELen = int(unsafe.Sizeof(CQE{}))

// A CompletionRing is the ring of a completion queue.
type CompletionRing struct {
	Ring
	siw *siwCompletions // used instead of the ring if not nil
}

// NewCompletionRing makes a ring for depth completions.
func NewCompletionRing(depth int) *CompletionRing { return CompletionRingOn(nil, depth) }

// CompletionRingOn is NewCompletionRing on memory that another process may
// share (see SendRingOn), of at least CompletionRingLen bytes.
func CompletionRingOn(mem []byte, depth int) *CompletionRing {
	r := &CompletionRing{}
	r.init(mem, depth, CQELen)
	return r
}

// CompletionRingLen returns the length of the memory of a completion queue's ring.
func CompletionRingLen(depth int) int { return RingLen(depth, CQELen) }

// Depth returns how many completions it holds.
func (r *CompletionRing) Depth() int {
	if r.siw != nil {
		return len(r.siw.slots)
	}
	return r.Ring.Depth()
}

// At returns the completion at index i.
func (r *CompletionRing) At(i uint32) *CQE { return (*CQE)(r.at(i)) }

// Append adds the completions that another ring holds, for which there is room.
func (r *CompletionRing) Append(from *CompletionRing) {
	w := r.Producer()
	for i, end := from.Consumer(), from.Producer(); i != end; i = from.Next(i) {
		*r.At(w) = *from.At(i)
		w = r.Next(w)
	}
	r.Publish(w)
}

// Put adds a completion, and reports whether there was room for it.
func (r *CompletionRing) Put(e *CQE) bool {
	if r.siw != nil {
		return r.siw.put(e)
	}
	if r.Full() {
		return false
	}
	i := r.Producer()
	*r.At(i) = *e
	r.Publish(r.Next(i))
	return true
}

// NetworkOrder converts immediate data between a number and the four bytes in network
// order that work requests and completions carry.
func NetworkOrder(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}
