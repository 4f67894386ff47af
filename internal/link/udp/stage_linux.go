//go:build linux && !softrdma_portable

package udp

import (
	"golang.org/x/sys/unix"

	"softrdma/internal/steering"
)

// # When memory of a stage is free
//
// A stage is a ring of batches, and the kernel does not say when it no longer needs the pages
// of a batch. It needs them while the batch is queued at an interface or in the peer's socket,
// and while the peer copies it from there. There is one rule for when a batch is free,
// independent of its packets and of the peer's behaviour:
//
// The kernel reports how much is queued (ask in waiting_linux.go). The packets queued in a
// socket are the newest ones. So a batch is not queued if more than that amount has been sent
// after it to the same socket. Half as much again and stageMargin are required: the margin
// covers the batch that the peer is copying, the half covers losses elsewhere than at the
// socket.
//
//   - A batch only counts if it has arrived. If the peer's sockets have dropped packets since the last look, none of the batches
//     sent since then counts.
//   - An address may have several sockets, one for each of its lanes. Batches to the same queue pair reach the same socket. Which
//     one is unknown, so the fullest decides.
//   - Batches that no other batch follows are free when two looks have found that nothing is queued anywhere.
//
// While the next place is not free, batches are copied by the kernel as to other hosts. A
// stage only has data for one peer, which therefore sees no other peer's. Should the rule fail
// because packets overtake each other, the peer finds a wrong ICRC, and the packet is lost.

const (
	// sharedLanes is the number of lanes of an address that programs share.
	sharedLanes = 256

	stageMargin = 4 * stageSlot

	// lookAfter is the number of bytes that are sent in the normal way after a look that found
	// no room.
	lookAfter = 1 << 20

	// stageKeys is the number of queue pairs that a look distinguishes. Batches to others wait
	// for a look that finds nothing queued.
	stageKeys = 32

	// emptyLooks is the number of looks after which a batch is free if nothing is queued.
	emptyLooks = 2
)

// A stage is the memory of a flow's batches.
type stage struct {
	mem    []byte
	stages *int // counts the stages of the link with memory
	at     int  // position of the next batch
	used   int  // bytes before at that are not free
	before int  // bytes that were sent without it
	skip   int  // bytes to send without it before the next look
	failed bool
	sole   uint64 // see ask
	drops  uint64 // value when the peer's sockets were last looked at

	// The batches that are not free, oldest first: a ring.
	batches     []staged
	first, many int
}

// A staged batch is a batch that is not known to be free.
type staged struct {
	queue uint32 // see link.Tx
	span  int32  // bytes of the stage
	bytes int32
	came  int32 // bytes known to have reached the peer's socket
	looks uint8 // looks that found nothing queued
	fresh bool  // there was no look since
}

// open gives the stage its memory, and counts it in stages.
func (g *stage) open(mem []byte, drops uint64, stages *int) {
	*stages++
	*g = stage{mem: mem, stages: stages, sole: g.sole, drops: drops, batches: make([]staged, len(mem)/spliceFrom+1)}
}

// free releases the memory. Pages that are queued in sockets stay as they are.
func (g *stage) free() {
	if g.mem != nil {
		_ = unix.Munmap(g.mem)
		*g.stages--
	}
	*g = stage{}
}

// room reports whether the next place is free.
func (g *stage) room() bool { return len(g.mem)-g.used >= stageSlot && g.many < len(g.batches) }

// next returns the next place.
func (g *stage) next() []byte { return g.mem[g.at : g.at+stageSlot] }

// put records that the kernel has a batch of n bytes from the next place. Bytes that may not
// have been sent also occupy their place.
func (g *stage) put(queue uint32, n int, sent bool) {
	span := (n + pageSize - 1) &^ (pageSize - 1)
	if g.at += span; g.at+stageSlot > len(g.mem) {
		span += len(g.mem) - g.at
		g.at = 0
	}
	b := g.batch(g.many)
	*b = staged{queue: queue, span: int32(span), bytes: int32(n), fresh: true}
	if sent {
		b.came = b.bytes
	}
	g.many++
	g.used += span
}

// batch returns the i-th batch, from the oldest.
func (g *stage) batch(i int) *staged { return &g.batches[(g.first+i)%len(g.batches)] }

// release frees batches by what is queued at the peer, and elsewhere on the path.
func (g *stage) release(w waiting, elsewhere int) {
	dropped := w.drops != g.drops
	g.drops = w.drops
	empty := w.total == 0 && elsewhere == 0
	limit := w.largest + elsewhere
	limit += limit/2 + stageMargin
	behind := behind{sockets: w.sockets}
	keep := g.many // the oldest that is not free
	for i := g.many - 1; i >= 0; i-- {
		b := g.batch(i)
		if b.fresh && dropped {
			b.came = 0
		}
		b.fresh = false
		if empty {
			b.looks = min(b.looks+1, emptyLooks)
		}
		sum := behind.of(b.queue)
		if b.looks < emptyLooks && (sum == nil || *sum <= limit) {
			keep = i
		}
		if sum != nil {
			*sum += int(b.came)
		}
	}
	for range keep {
		g.used -= int(g.batch(0).span)
		g.first, g.many = (g.first+1)%len(g.batches), g.many-1
	}
}

// behind counts the bytes sent after a batch, by queue pairs whose packets reach the same
// socket.
type behind struct {
	sockets int
	n       int
	queues  [stageKeys]uint32
	bytes   [stageKeys]int
}

// of returns the count for a queue pair, or nil if there are too many.
func (h *behind) of(queue uint32) *int {
	queue = h.key(queue)
	for i, q := range h.queues[:h.n] {
		if q == queue {
			return &h.bytes[i]
		}
	}
	if h.n == stageKeys {
		return nil
	}
	h.queues[h.n] = queue
	h.n++
	return &h.bytes[h.n-1]
}

// key returns a number that is equal only for queue pairs with the same socket. An address has
// a socket for each lane (OpenLanes), or fewer than its sharedLanes if programs share it
// (OpenSlots). If the number of sockets divides sharedLanes, so does that of lanes in both
// cases.
func (h *behind) key(queue uint32) uint32 {
	switch {
	case h.sockets == 1:
		return 0
	case sharedLanes%h.sockets == 0:
		return uint32(steering.LaneOf(queue, sharedLanes))
	}
	return queue
}
