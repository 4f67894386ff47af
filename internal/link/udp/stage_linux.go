//go:build linux && !softrdma_portable

package udp

import (
	"golang.org/x/sys/unix"

	"softrdma/internal/frame"
)

// # When memory of a stage is free
//
// A stage is a ring of batches, and the kernel does not say when it needs the pages of one no more.
// It needs them while the batch waits in the queue of an interface or in the peer's socket, and
// while the peer copies it from there. This is the one rule by which a batch is free, whatever its
// packets are, and whatever the peer does:
//
// The kernel tells how much waits (ask in waiting_linux.go). What waits in a socket are the packets
// that came last. So a batch does not wait if more than that has come behind it to the same socket.
// Half as much again and stageMargin are required: the margin covers the batch that the peer is
// just copying, the half what was lost elsewhere than at the socket.
//
//   - A batch counts only if it came. If the peer's sockets have dropped packets since the last
//     look, none of the batches sent since counts.
//   - An address may have several sockets, one for each of its lanes. Batches to the same queue
//     pair reach the same one. Which one is not known, so the fullest decides.
//   - Batches that nothing follows are free when two looks have found that nothing waits anywhere.
//
// While the next place is not free, batches are copied by the kernel as to other hosts. A stage has
// data for one peer only, which therefore sees no other peer's. Should all of this fail, because
// packets overtake each other on the way, the peer finds a wrong ICRC, and the packet is lost.

const (
	// sharedLanes is the number of lanes of an address that programs share.
	sharedLanes = 256

	stageMargin = 4 * stageSlot

	// lookAfter is the number of bytes that are sent otherwise after a look that found no room.
	lookAfter = 1 << 20

	// stageKeys is the number of queue pairs that a look tells apart. Batches to further ones
	// wait for a look that finds nothing waiting.
	stageKeys = 32

	// emptyLooks is the number of looks after which a batch is free if nothing waits.
	emptyLooks = 2
)

// A stage is the memory of a flow that its batches lie in.
type stage struct {
	mem    []byte
	at     int // where the next batch goes
	used   int // bytes that are not free, up to at
	before int // bytes that were sent without it
	skip   int // bytes to send without it before the next look
	failed bool
	sole   uint64 // the only socket of the peer's address, see ask
	drops  uint64 // when the peer's sockets were last looked at

	// The batches that are not free, the oldest first: a ring.
	batches     []staged
	first, many int
}

// A staged batch is one that is not known to be free.
type staged struct {
	queue uint32 // see link.Tx
	span  int32  // bytes of the stage
	bytes int32
	came  int32 // bytes that have surely reached the peer's socket, by what is known so far
	looks uint8 // that found nothing waiting
	fresh bool  // no look came since
}

// open gives the stage its memory.
func (g *stage) open(mem []byte, drops uint64) {
	*g = stage{mem: mem, sole: g.sole, drops: drops, batches: make([]staged, len(mem)/spliceFrom+1)}
}

// free gives the memory up. Pages that wait in sockets stay as they are.
func (g *stage) free() {
	if g.mem != nil {
		_ = unix.Munmap(g.mem)
	}
	*g = stage{}
}

// room reports whether the next place is free.
func (g *stage) room() bool { return len(g.mem)-g.used >= stageSlot && g.many < len(g.batches) }

// next returns the next place.
func (g *stage) next() []byte { return g.mem[g.at : g.at+stageSlot] }

// put notes that the kernel has a batch of n bytes from the next place. What may not have been sent
// takes its place as well.
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

// release frees batches by what waits at the peer, and elsewhere on the way there.
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

// behind holds how much has come behind a batch, by queue pairs whose packets reach the same socket.
type behind struct {
	sockets int
	n       int
	queues  [stageKeys]uint32
	bytes   [stageKeys]int
}

// of returns the sum for a queue pair, nil if there are too many.
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

// key returns a number that is the same only for queue pairs with the same socket. An address has
// a socket for each lane (OpenLanes), or fewer than its sharedLanes if programs share it
// (OpenSlots). If the number of sockets divides sharedLanes, so does that of lanes in both cases.
func (h *behind) key(queue uint32) uint32 {
	switch {
	case h.sockets == 1:
		return 0
	case sharedLanes%h.sockets == 0:
		return uint32(frame.LaneOf(queue, sharedLanes))
	}
	return queue
}
