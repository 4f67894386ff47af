package uapi

import (
	"hash/fnv"
	"sync"

	"softrdma/internal/reason"
)

// This module's own programs add to some commands what the rxe provider has
// nothing for: behind the kernel's part, where a driver's own part goes. A file
// takes these parts once its GET_CONTEXT had one.

// OwnContext is added to GET_CONTEXT: records of asynchronous events are
// OwnEvents from then on.
type OwnContext struct{ Flags uint64 }

// OwnContextResp is what GET_CONTEXT answers to it.
type OwnContextResp struct {
	Addr    [16]byte // of the device
	Port    uint16   // UDP, 0 of an iWARP device
	IWARP   uint8    // 1 where it is one
	_       [5]uint8
	GID     [16]byte
	Reasons uint64 // see Reasons
}

// OwnEvent is an asynchronous event with the reason that there is for it.
type OwnEvent struct {
	AsyncEvent
	Expected, Found uint64
}

// OwnPath is added to MODIFY_QP and CREATE_AH.
type OwnPath struct {
	UDPPort uint16 // of the peer
	_       [6]uint8
}

// OwnQP is added to CREATE_QP: congestion control and recovery as the adapter
// numbers them.
type OwnQP struct {
	Control, Recovery uint8
	_                 [2]uint8
	PeerTimeout       int32 // milliseconds; 0 takes the device's, negative means no limit
	PeerProbe         int32 // milliseconds; 0 is a quarter of it
	_                 int32
}

// OwnQPResp is added to what QUERY_QP answers: the operations that can be posted,
// a bit for each number (package queue).
type OwnQPResp struct{ Ops, _ uint32 }

// OwnPort is added to QUERY_PORT: it asks for the counters of the reasons from
// this number on.
type OwnPort struct {
	From, _ uint32
}

// OwnPortResp is what QUERY_PORT answers to it: counters in the order of their
// reasons, behind the last of which there are zeros.
type OwnPortResp struct {
	Counters [32]struct {
		Reason, _ uint32
		N         uint64
	}
}

// OwnMR is added to REG_MR. With SharedMemory the memory is what the descriptor
// that comes with the message has from Offset on: a memfd that cannot shrink.
type OwnMR struct {
	Flags  uint64
	Offset uint64 // bytes
}

// MaxInline is how many bytes of inline data a queue pair may want, which
// QUERY_DEVICE does not tell.
const MaxInline = 512

// SharedMemory is a flag of OwnMR.
const SharedMemory = 1

// Reasons is a number that two sides have in common when they number the named
// reasons alike: completions and events have numbers.
var Reasons = sync.OnceValue(func() uint64 {
	h := fnv.New64a()
	for r := reason.None; r < reason.Count; r++ {
		_, _ = h.Write([]byte(r.String() + "\n")) // never fails
	}
	return h.Sum64()
})
