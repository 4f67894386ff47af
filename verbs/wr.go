package verbs

import (
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// An Op is the operation of a send work request. The numbers are those of
// ibv_wr_opcode.
type Op uint32

// The operations.
const (
	OpWrite       Op = 0 // RDMA WRITE to RemoteAddr (RC, UC)
	OpWriteImm    Op = 1 // the same, and completes a receive of the peer with Imm (RC, UC)
	OpSend        Op = 2 // to the peer's oldest receive (RC, UC, UD)
	OpSendImm     Op = 3 // the same with Imm (RC, UC, UD)
	OpRead        Op = 4 // RDMA READ from RemoteAddr to SGL (RC)
	OpCompareSwap Op = 5 // stores Swap if the remote word holds Compare (RC)
	OpFetchAdd    Op = 6 // adds Add to the remote word (RC)
	OpLocalInv    Op = 7 // invalidates a type 2 window of this side (RC, UC)
	OpBindMW      Op = 8 // binds a window, see Bind (RC, UC)
	OpSendInv     Op = 9 // OpSend, and invalidates the peer's InvalidateKey (RC)

	// From IBTA 1.6, annex A19 (RC; not on iWARP). They count among the peer's READs and
	// atomics in flight.
	OpFlush       Op = 14 // completes when earlier writes are placed as Flush says
	OpAtomicWrite Op = 15 // writes the 8 bytes of Inline to RemoteAddr atomically; needs RemoteWrite
)

// String returns the name of ibv_wr_opcode, as "IBV_WR_RDMA_WRITE".
func (o Op) String() string { return queue.Op(o).String() }

// A Placement says how far OpFlush carries earlier writes; several may be requested. The
// numbers are those of ibv_placement_type.
type Placement uint8

// The placements.
const (
	GlobalVisibility Placement = 1 << 0 // programs on the peer's host see it; needs FlushGlobal
	Persistence      Placement = 1 << 1 // it survives a power loss; needs FlushPersistent
)

// String returns the names of ibv_placement_type without their prefix, as "GLOBAL", or
// "none".
func (p Placement) String() string { return ib.Placement(p).String() }

// A Flush says what OpFlush flushes: Length bytes from RemoteAddr on, or the whole region of
// RKey, which ignores RemoteAddr and Length.
type Flush struct {
	Placement Placement
	Region    bool   // the whole region
	Length    uint32 // bytes, at most MaxMessage
}

// SendFlags modify a send work request. The numbers are those of ibv_send_flags.
type SendFlags uint32

// The flags.
const (
	Fence     SendFlags = 1 << 0 // start only after earlier READs and atomics
	Signaled  SendFlags = 1 << 1 // complete with a WC also if successful
	Solicited SendFlags = 1 << 2 // make the peer's completion a solicited event
)

// A SendWR is a work request for a send queue (IBTA 11.4.1.1). PostSend copies it.
// The memory that SGL names must not change until the request completes. Atomics
// take one entry of 8 bytes for the result.
type SendWR struct {
	WRID  uint64 // chosen by the program and copied to the completion
	Op    Op
	Flags SendFlags
	SGL   []SGE // at most QPConfig.MaxSendSGE entries, MaxMessage bytes in total (UD: the path MTU)

	// Inline is sent instead of SGL's memory and can be reused when PostSend returns. It has
	// at most QPConfig.MaxInline bytes for SEND and WRITE, and always 8 bytes for
	// OpAtomicWrite.
	Inline []byte

	Imm           uint32 // OpSendImm, OpWriteImm
	InvalidateKey uint32 // OpSendInv: the peer's key; OpLocalInv: a window's

	RemoteAddr uint64 // WRITE, READ, FLUSH; atomics and ATOMIC WRITE: a multiple of 8
	RKey       uint32 // of the peer's memory at RemoteAddr

	Compare uint64 // OpCompareSwap
	Swap    uint64 // OpCompareSwap
	Add     uint64 // OpFetchAdd

	AH         *AH    // UD: the destination, required
	RemoteQPN  uint32 // UD: 24 bits; 0xffffff with a multicast address
	RemoteQKey uint32 // UD: if the high bit is set the queue pair's own Q_Key is used

	RemoteSRQN uint32 // XRCSend: number of the peer's XRC shared receive queue, required

	Bind *Bind // OpBindMW

	Flush Flush // OpFlush
}

// A Bind says what OpBindMW binds: Length bytes at Addr of region MR, with the
// rights Access for peers. Binding no bytes unbinds a type 1 window.
type Bind struct {
	MW     *MW
	MR     *MR    // registered with MWBind
	Addr   uint64 // in the address range of MR.Addr
	Length uint64 // bytes
	Access Access // RemoteWrite and RemoteAtomic need a region with LocalWrite
}

// A RecvWR is a work request for a receive queue (IBTA 11.4.1.2). On UD the
// first 40 bytes of the memory are the GRH area.
type RecvWR struct {
	WRID uint64 // chosen by the program and copied to the completion
	SGL  []SGE  // memory with LocalWrite; at most QPConfig.MaxRecvSGE entries
}

// A PostError says which of the posted requests was refused and why. Earlier requests are
// posted, later ones are not.
type PostError struct {
	Index int   // among those of the call, from 0
	Err   error // wraps ErrQueueFull if there was no room
}

// Error names the request and the refusal.
func (e *PostError) Error() string { return fmt.Sprintf("work request %d: %v", e.Index, e.Err) }

// Unwrap returns the refusal.
func (e *PostError) Unwrap() error { return e.Err }

// ErrQueueFull is wrapped by a PostError when the queue has no room. Requests
// leave the queue when they, or later ones, complete.
var ErrQueueFull = reason.Sentinel(reason.QueueFull, "work queue full")

// refusal returns a named reason as an error.
func refusal(r reason.Reason, expected, found int) error {
	return reason.Detail{Reason: r, Expected: uint64(expected), Found: uint64(found)}.Err()
}

// queueFull returns the refusal of a request for which the queue has no room.
func queueFull(depth, outstanding int) error {
	return &reason.Error{
		Detail: reason.Detail{Reason: reason.QueueFull, Expected: uint64(depth), Found: uint64(outstanding)}, Cause: ErrQueueFull,
	}
}

// encode writes the request to slot i of the ring.
func (w *SendWR) encode(r *queue.SendRing, i uint32) error {
	q := r.At(i)
	*q = queue.SendWQE{WRID: w.WRID, Op: queue.Op(w.Op), Flags: queue.Flags(w.Flags) &^ queue.Inline}
	switch {
	case w.Op == OpFlush || w.Op == OpAtomicWrite:
		return w.encodeAnnex(q, r.Word(i))
	case w.Inline != nil:
		if len(w.Inline) > r.MaxInline() {
			return refusal(reason.InlineTooLong, r.MaxInline(), len(w.Inline))
		}
		if len(w.SGL) > 0 {
			return reason.BadArgument(0, uint64(len(w.SGL)), "inline data beside %d scatter/gather entries: expected one of the two", len(w.SGL))
		}
		q.Flags |= queue.Inline
		q.Length = uint32(copy(r.InlineRoom(i), w.Inline))
	default:
		if len(w.SGL) > r.MaxSGE() {
			return refusal(reason.TooManySGEs, r.MaxSGE(), len(w.SGL))
		}
		var n uint64
		room := r.SGERoom(i)
		for k := range w.SGL {
			room[k] = memory.SGE(w.SGL[k])
			n += uint64(w.SGL[k].Length)
		}
		if n > MaxMessage {
			return refusal(reason.LocalLength, MaxMessage, int(n))
		}
		q.NumSGE, q.Length = uint32(len(w.SGL)), uint32(n)
	}
	return w.encodeRemote(q)
}

func (w *SendWR) encodeRemote(q *queue.SendWQE) error {
	switch w.Op {
	case OpSend:
	case OpSendImm:
		q.ImmInv = queue.NetworkOrder(w.Imm)
	case OpSendInv, OpLocalInv:
		q.ImmInv = w.InvalidateKey
	case OpWrite, OpRead, OpWriteImm:
		if w.Op == OpWriteImm {
			q.ImmInv = queue.NetworkOrder(w.Imm)
		}
		q.RDMA().Addr, q.RDMA().RKey = w.RemoteAddr, w.RKey
	case OpCompareSwap:
		*q.Atomic() = queue.Atomic{Addr: w.RemoteAddr, RKey: w.RKey, CompareAdd: w.Compare, Swap: w.Swap}
	case OpFetchAdd:
		*q.Atomic() = queue.Atomic{Addr: w.RemoteAddr, RKey: w.RKey, CompareAdd: w.Add}
	case OpBindMW:
		return w.encodeBind(q)
	default:
		return reason.BadArgument(uint64(OpAtomicWrite), uint64(w.Op), "work request: expected one of the constants Op…, found %v", w.Op)
	}
	return nil
}

// encodeAnnex writes the rest of an operation of annex A19, which has no scatter/gather list.
func (w *SendWR) encodeAnnex(q *queue.SendWQE, word *[queue.WordLen]byte) error {
	if len(w.SGL) > 0 {
		return reason.BadArgument(0, uint64(len(w.SGL)), "%v: expected no scatter/gather entry, found %d", w.Op, len(w.SGL))
	}
	if w.Op == OpAtomicWrite {
		if len(w.Inline) != queue.WordLen || w.RemoteAddr%queue.WordLen != 0 {
			return reason.BadArgument(queue.WordLen, uint64(len(w.Inline)), "%v: expected %d bytes inline and a remote address that is a multiple of %d, found %d bytes for %#x",
				w.Op, queue.WordLen, queue.WordLen, len(w.Inline), w.RemoteAddr)
		}
		copy(word[:], w.Inline)
		q.RDMA().Addr, q.RDMA().RKey = w.RemoteAddr, w.RKey
		return nil
	}
	f := w.Flush
	if f.Placement&^(GlobalVisibility|Persistence) != 0 || f.Length > MaxMessage || w.Inline != nil {
		return reason.BadArgument(MaxMessage, uint64(f.Length), "%v: expected a known placement, at most %d bytes and no inline data, found %v, %d bytes and %d inline",
			w.Op, uint64(MaxMessage), f.Placement, f.Length, len(w.Inline))
	}
	t := q.Flush()
	t.Addr, t.RKey, t.Placement = w.RemoteAddr, w.RKey, uint8(f.Placement)
	if f.Region {
		t.Selectivity = uint8(ib.FlushRegion)
	}
	q.Length = f.Length
	return nil
}

func (w *SendWR) encodeBind(q *queue.SendWQE) error {
	b := w.Bind
	if b == nil || b.MW == nil || b.MR == nil && b.Length != 0 {
		return reason.BadArgument(0, 0, "OpBindMW: expected Bind with MW and MR, found %+v", b)
	}
	m := q.MW()
	m.Addr, m.Length, m.Access = b.Addr, b.Length, uint32(b.Access)
	if b.MR != nil {
		m.MRLKey = b.MR.LKey()
	}
	m.MWRKey, m.RKey = b.MW.next()
	return nil
}
