package coll

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// A board is memory of a member in which all members on its host see its progress. Only the member
// writes to it.
type board struct {
	step  atomic.Uint64 // of the last mapped call its word, and the steps that the member has done, which wrap
	call  atomic.Uint64 // the word of its last call
	vote  uint64        // 1 for yes; does not change before all have read it
	_     [104]byte
	offer offer // does not change before all have read it

	_      [256 - unsafe.Sizeof(offer{})]byte
	shorts [2]short
}

var _ [minSlab - unsafe.Sizeof(board{})]byte // it fits

// leftCall is the word of a member that has closed the group.
const leftCall = 1<<64 - 1

// An offer says where a member's elements are, and where it leaves its block of the result.
type offer struct {
	Length         uint64 // of all elements of the call, in bytes
	Root           uint64
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

// done publishes that this member has done one more step of the call.
func (c *call) done() {
	c.steps++
	c.g.mapping.boards[c.g.rank].step.Store(c.word<<shiftStep | c.steps&stepMask)
}

// others calls f for each other member when it has done as many steps of the call as this one, in
// whatever order they do. After the last step they may be in later calls. It reports whether all have.
func (c *call) others(last bool, f func(rank int)) bool {
	m := c.g.mapping
	todo := append(m.todo[:0], m.others...)
	if m.earlySleeps > 0 {
		m.earlySleeps--
	}
	for look := 0; c.err == nil; look++ {
		left := todo[:0]
		for _, r := range todo {
			if !c.reached(r, last) {
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
				c.checkCall(r, last)
			}
		}
		m.pause(look)
	}
	m.todo = todo
	return c.err == nil
}

// all waits until each other member has done as many steps as this one, the last ones of the call or of a
// round.
func (c *call) all() bool { return c.others(true, func(int) {}) }

// reached reports whether a member has done as many steps of the call as this one. It ends the call if
// the member is in another one.
func (c *call) reached(rank int, last bool) bool {
	step := c.g.mapping.boards[rank].step.Load()
	word := step >> shiftStep
	switch ahead := ahead(word, c.word); {
	case word == c.word:
		return int16(step-c.steps) >= 0 // members of a call are few steps apart
	case ahead < 0:
		return false
	case ahead > 0 && last:
		return true
	}
	c.differs(rank, word)
	return false
}

// ahead returns by how many calls a word is ahead of another one. Numbers of calls wrap.
func ahead(word, other uint64) int64 {
	const unused = 64 - numberBits
	return int64((word>>shiftWord-other>>shiftWord)<<unused) >> unused
}

// checkCall ends the call if a member will not do the step that this one waits for.
func (c *call) checkCall(rank int, last bool) {
	g := c.g
	word := g.mapping.boards[rank].call.Load()
	switch {
	case word == c.word || c.reached(rank, last):
	case word == leftCall || g.mesh.links[g.members[rank]].left.Load():
		c.stop(rank, ErrLeft)
	case ahead(word, c.word) >= 0: // else it is in a call before this one
		c.differs(rank, word)
	}
}

// differs ends the call because a member is in another one.
func (c *call) differs(rank int, word uint64) {
	c.stop(rank, fmt.Errorf("%w: it calls %s, rank %d %s", ErrCall, describe(uint16(word&whatMask)), c.g.rank, describe(c.what())))
}

const (
	checkEvery = 16   // looks at boards from one check of what else may have happened to the next
	maxLooks   = 4096 // before a member sleeps
	firstSleep = 20 * time.Microsecond
	longSleep  = 2 * time.Millisecond

	longYield      = time.Millisecond
	earlySleepsFor = 32 // waits
)

// pause waits for a moment before this member looks at boards again. At first it lets other threads run:
// one may be that of the member that it waits for, as members may be more than processors. Later it
// sleeps, a little longer each time.
//
// If a thread keeps the processor for long, a member that sleeps gets it back sooner than one that yields.
func (m *mapping) pause(look int) {
	switch {
	case look >= maxLooks:
		time.Sleep(min(firstSleep+firstSleep/checkEvery*time.Duration(look-maxLooks), longSleep))
	case m.inside:
		runtime.Gosched()
	case m.earlySleeps > 0:
		time.Sleep(firstSleep)
	default:
		began := time.Now()
		yieldProcessor()
		if time.Since(began) > longYield {
			m.earlySleeps = earlySleepsFor
		}
		if look%checkEvery == checkEvery-1 {
			runtime.Gosched() // to the program's other goroutines
		}
	}
}
