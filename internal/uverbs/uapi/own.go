package uapi

import (
	"hash/fnv"
	"sync"

	"softrdma/internal/reason"
)

// This module's own programs extend some commands with fields that the rxe provider does not have.
// An extension follows the kernel's part of the command, where a driver's own part goes. A file
// accepts extensions once its GET_CONTEXT had one.

// OwnContext extends GET_CONTEXT. From then on records of asynchronous events are OwnEvents.
type OwnContext struct{ Flags uint64 }

// OwnContextResp extends the answer to GET_CONTEXT.
type OwnContextResp struct {
	Addr     [16]byte // of the device
	Port     uint16   // UDP port; 0 for an iWARP device
	Protocol uint8    // numbered as in package cmid
	_        [5]uint8
	GID      [16]byte
	Reasons  uint64 // see Reasons
}

// OwnEvent is an asynchronous event with its reason's expected and found values.
type OwnEvent struct {
	AsyncEvent
	Expected, Found uint64
}

// OwnPath extends MODIFY_QP and CREATE_AH.
type OwnPath struct {
	UDPPort uint16 // of the peer
	_       [6]uint8
}

// OwnQP extends CREATE_QP with congestion control and recovery, numbered as in the adapter.
type OwnQP struct {
	Control, Recovery uint8
	_                 [2]uint8
	PeerTimeout       int32 // milliseconds; 0 means the device's timeout, negative means no limit
	PeerProbe         int32 // milliseconds; 0 means a quarter of PeerTimeout
	_                 int32
}

// OwnQPResp extends the answer to QUERY_QP with the operations that can be posted, one bit for each
// operation number of package queue, and with the path of the connection, numbered as in package
// adapter.
type OwnQPResp struct{ Ops, Path uint32 }

// OwnPort extends QUERY_PORT. It requests the counters of the reasons numbered From and above, and
// the bytes that the port has carried, or with Tables the port's tables.
type OwnPort struct {
	From   uint32
	Tables uint32 // 0 or 1
}

// OwnPortTables extends the answer to QUERY_PORT of a fabric's port. QueryPortResp has their
// lengths.
type OwnPortTables struct {
	GIDs  [8][16]byte
	PKeys [128]uint16
}

// OwnPortResp extends the answer to QUERY_PORT. It holds counters in the order of their reasons;
// unused entries at the end are zero.
type OwnPortResp struct {
	Counters [32]struct {
		Reason, _ uint32
		N         uint64
	}
	Sent, Received uint64 // bytes of payload
}

// OwnMR extends REG_MR. With SharedMemory the memory is that of the descriptor sent with the
// message, from Offset on. The descriptor must be a memfd that cannot shrink.
type OwnMR struct {
	Flags  uint64
	Offset uint64 // bytes
}

// MaxInline is the largest inline data size, in bytes, that a queue pair may request. QUERY_DEVICE
// does not report it.
const MaxInline = 512

// SharedMemory is a flag of OwnMR.
const SharedMemory = 1

// Reasons returns a hash of the named reasons. Two sides with the same hash number the reasons
// alike and may exchange reasons as numbers.
var Reasons = sync.OnceValue(func() uint64 {
	h := fnv.New64a()
	for r := reason.None; r < reason.Count; r++ {
		_, _ = h.Write([]byte(r.String() + "\n")) // never fails
	}
	return h.Sum64()
})
