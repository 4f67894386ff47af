// Package hostmem carries messages between two devices of one host through shared memory.
//
// It owns the layout of that memory: an [Area] carries what one device sends to another, with
// a ring for each pair of lanes. A [Sender] writes messages into a ring and a [Receiver] takes
// them out. One goroutine at a time uses each. On Linux the package also owns the system
// resources: sealed memory ([Memory]), and descriptors that wake a lane ([Bells]).
//
// A message is a packet, or a train of packets of one size: its transport headers and its
// payload, copied into the ring or referenced by a [Ref]. The package parses neither. It never
// decides which device is reachable, never trusts a value that it reads from shared memory,
// and never touches memory that a Ref references.
//
// # Trust
//
// Each side may be hostile: it can write anything into the shared memory at any time. A
// Receiver therefore copies a message's description into private memory before it checks it.
// Payload stays in the ring, where it may change until the message is released: users only
// copy it out. The words that a Sender reads can only delay or lose messages of this one
// channel. Every index is checked before it is used.
package hostmem

import (
	"sync/atomic"
	"unsafe"

	"softrdma/internal/link/lines"
	"softrdma/internal/reason"
)

// The layout of an area. All numbers are in the host's byte order.
//
//	offset          bytes     writer    what
//	area
//	0               8         sender    magic
//	8               4         sender    version
//	12              2, 2      sender    lanes of the sender, lanes of the receiver
//	16              4, 4      sender    slots of a ring, bytes of its arena
//	4096            ringSize  -         ring from lane 0 to lane 0, then to lane 1, …
//
//	ring
//	0               8         receiver  head: messages released
//	8               8         receiver  copying: 1 + number of the message whose Ref is in use, or 0
//	128             8         receiver  armed: 1 + number of the message that rings the bell, or 0
//	136             8         receiver  wantICRC: not 0 while the receiver captures
//	256             8         sender    wake: the head at which the receiver rings the sender's bell
//	264             8         sender    revoked: messages before this number have lost their Refs
//	4096            slots     sender    slots of 128 bytes
//	4096+slots      arena     sender    payload that does not fit a slot
//
//	slot
//	0               8         sender    stamp (32 bits), header length, form, traffic class, hop limit (8 each)
//	8               8         sender    payload length (32), port (16), train (16)
//	16                        sender    inSlot: headers, directly followed by the payload
//	16              8         sender    inArena: offset in the arena; byRef: in the segment
//	24              8         sender    byRef: segment
//	32                        sender    inArena, byRef: headers
//
// Groups of words are 128 bytes apart because processors fetch cache lines in pairs. The
// receiver writes armed's line only to sleep and to set wantICRC, and the sender writes wake's
// line only to wait and to revoke. So both lines stay in the cache of the side that reads them
// for each message.
//
// The stamp is written last. It is 1 + the number of rounds that the ring has made, so slots
// need not be cleared. The receiver polls the slot itself: a WRITE of 8 bytes, whose BTH, RETH
// and payload are 36 bytes, takes one line of 64 bytes.
const (
	magic   = 0x6d656d74736f6873
	version = 1

	ringsAt = 4096

	headAt     = 0
	copyingAt  = 8
	armedAt    = 128
	wantICRCAt = 136
	wakeAt     = 256
	revokedAt  = 264
	slotsAt    = 4096
	arenaAt    = slotsAt + slots*slotSize
	ringSize   = arenaAt + arenaSize

	slotBits  = 10
	slots     = 1 << slotBits
	slotSize  = 128
	arenaSize = 1 << 20

	nearAt = 16 // headers of inSlot
	farAt  = 32 // headers of inArena and byRef
)

// MaxLanes is the largest number of lanes per device in an area.
const MaxLanes = 1 << 8

// An Area is one side's view of the memory that carries messages from one device to another.
type Area struct {
	mem      []byte
	from, to int
}

// AreaSize returns the size in bytes of the area between devices with these numbers of lanes.
func AreaSize(from, to int) int { return ringsAt + from*to*ringSize }

// NewArea returns the sender's view of an area. mem has AreaSize bytes, zeroed and aligned to
// a line.
func NewArea(mem []byte, from, to int) *Area {
	if uintptr(unsafe.Pointer(&mem[0]))%lines.Size != 0 {
		panic("hostmem: area between lines")
	}
	a := &Area{mem: mem[:AreaSize(from, to)], from: from, to: to}
	for i, v := range geometry(from, to) {
		atomic.StoreUint64(word(mem, 8*i), v)
	}
	return a
}

// OpenArea returns the receiver's view of an area that another process made. It refuses memory
// with another version or geometry.
func OpenArea(mem []byte, from, to int) (*Area, error) {
	if from < 1 || to < 1 || from > MaxLanes || to > MaxLanes {
		return nil, reason.Detail{Reason: reason.HostArea, Expected: MaxLanes, Found: uint64(max(from, to))}.Err()
	}
	if len(mem) != AreaSize(from, to) {
		return nil, reason.Detail{Reason: reason.HostArea, Expected: uint64(AreaSize(from, to)), Found: uint64(len(mem))}.Err()
	}
	for i, want := range geometry(from, to) {
		if found := atomic.LoadUint64(word(mem, 8*i)); found != want {
			return nil, reason.Detail{Reason: reason.HostArea, Expected: want, Found: found}.Err()
		}
	}
	return &Area{mem: mem, from: from, to: to}, nil
}

// geometry returns the first bytes of an area.
func geometry(from, to int) [3]uint64 {
	return [3]uint64{magic, version | uint64(from)<<32 | uint64(to)<<48, slots | arenaSize<<32}
}

// ring returns the memory of the ring between two lanes.
func (a *Area) ring(from, to int) []byte {
	if from < 0 || to < 0 || from >= a.from || to >= a.to {
		panic("hostmem: no such lane")
	}
	at := ringsAt + (from*a.to+to)*ringSize
	return a.mem[at : at+ringSize : at+ringSize]
}

// word returns the 64-bit word at an offset.
func word(mem []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&mem[at : at+8][0])) }

// shared returns the word at an offset, for atomic access by both sides.
func shared(mem []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(word(mem, at)))
}
