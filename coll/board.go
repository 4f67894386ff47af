package coll

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// A board is memory of a member in which all members on its host see how far it is. Only the member
// writes to it.
type board struct {
	step  atomic.Uint64 // steps that the member has done in mapped calls
	call  atomic.Uint64 // the word of its last call
	vote  uint64        // 1 for yes; does not change before all have read it
	_     [104]byte
	offer offer // does not change before all have read it
}

// leftCall is the word of a member that has closed the group.
const leftCall = 1<<64 - 1

// An offer says where a member's elements are, and where it leaves its block of the result.
type offer struct {
	Length         uint64 // of all elements of the call, in bytes
	Failed         uint64 // 1: the member has no memory for it
	Source, Result portion
}

// A portion is where something begins in a slab. The number is 0 if there is nothing.
type portion struct {
	Number, At uint64
	New        uint32 // 1: members of the group have not mapped the slab
	key
}

// A key is that of a slab.
type key struct {
	Len   uint32 // 0: there is none
	Bytes [maxKey]byte
}

func (k *key) set(b []byte) { k.Len = uint32(copy(k.Bytes[:], b)) }
func (k *key) get() []byte  { return k.Bytes[:min(k.Len, maxKey)] }

// bytesOf returns the memory of a value without pointers.
func bytesOf[T any](x *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x)) }

// done publishes that this member has done one more step.
func (c *call) done() {
	m := c.g.mapping
	m.steps++
	m.boards[c.g.rank].step.Store(m.steps)
}

// others calls f for each other member when it has done as many steps as this one, in whatever order
// they do. It reports whether all have.
func (c *call) others(f func(rank int)) bool { return c.await(c.g.mapping.others, f) }

// await is others for some members.
func (c *call) await(ranks []int, f func(rank int)) bool {
	m := c.g.mapping
	todo := append(m.todo[:0], ranks...)
	if m.crowded > 0 {
		m.crowded--
	}
	for look := 0; c.err == nil; look++ {
		left := todo[:0]
		for _, r := range todo {
			if m.boards[r].step.Load() < m.steps {
				left = append(left, r)
				continue
			}
			f(r)
			look = 0
		}
		if todo = left; len(left) == 0 {
			break
		}
		if look%checkEvery == checkEvery-1 && c.ok() {
			for _, r := range left {
				c.checkCall(r)
			}
		}
		m.pause(look)
	}
	return c.err == nil
}

// checkCall ends the call if a member will not do the step that this one waits for.
func (c *call) checkCall(rank int) {
	g := c.g
	m := g.mapping
	b := m.boards[rank]
	word := b.call.Load()
	if word == c.word || b.step.Load() >= m.steps {
		return
	}
	switch {
	case word == leftCall || g.mesh.links[g.members[rank]].left.Load():
		c.stop(rank, ErrLeft)
	case word>>shiftWord >= c.word>>shiftWord: // else it is in a call before this one
		c.stop(rank, fmt.Errorf("%w: it calls %s, rank %d %s", ErrCall, describe(uint16(word&whatMask)), g.rank, describe(c.what())))
	}
}

const (
	checkEvery = 16   // looks at boards from one check of what else may have happened to the next
	maxLooks   = 4096 // before a member sleeps
	firstSleep = 20 * time.Microsecond
	longSleep  = 2 * time.Millisecond

	longYield  = time.Millisecond
	crowdedFor = 32 // waits
)

// pause waits for a moment before this member looks at boards again. At first it lets other threads run:
// one may be that of the member that it waits for, as members may be more than processors. Later it
// sleeps, each time for a small part of the time that it has waited.
//
// If a thread keeps the processor for long, a member that sleeps gets it back sooner than one that yields.
func (m *mapping) pause(look int) {
	switch {
	case look >= maxLooks:
		time.Sleep(min(firstSleep+firstSleep/checkEvery*time.Duration(look-maxLooks), longSleep))
	case m.inside:
		runtime.Gosched()
	case m.crowded > 0:
		time.Sleep(firstSleep)
	default:
		began := time.Now()
		yieldProcessor()
		if time.Since(began) > longYield {
			m.crowded = crowdedFor
		}
		if look%checkEvery == checkEvery-1 {
			runtime.Gosched() // to the program's other goroutines
		}
	}
}
