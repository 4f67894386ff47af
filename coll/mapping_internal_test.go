package coll

import (
	"math"
	"testing"
)

// What another member offers is used only as far as it is in its memory.
func TestElementsAtAreInsideTheMemory(t *testing.T) {
	b := raw(make([]uint64, 10))
	for _, x := range []struct {
		at    uint64
		lo, n int
		ok    bool
	}{
		{0, 0, 20, true},
		{8, 2, 16, true},
		{76, 0, 1, true},
		{0, 0, 21, false},
		{8, 2, 17, false},
		{80, 0, 1, false},
		{81, 0, 1, false},
		{2, 0, 1, false}, // not aligned
		{math.MaxUint64 - 3, 0, 1, false},
		{math.MaxUint64 - 3, 1, 1, false}, // the sum is 0
		{math.MaxUint64 - 7, 3, 1, false}, // the sum is 4
	} {
		e := elementsAt[uint32](b, x.at, x.lo, x.n)
		if (e != nil) != x.ok || x.ok && len(e) != x.n {
			t.Errorf("%+v: %d elements", x, len(e))
		}
	}
}

// What other members' boards say counts modulo the lengths of the numbers there.
func TestReachedComparesNumbersThatWrap(t *testing.T) {
	const last = 1<<numberBits - 1 // number of a call
	const most = 1<<shiftStep - 1  // number of a step
	for _, x := range []struct {
		call, steps   uint64 // of this member
		number, other uint64 // of the other one
		final         bool
		want, failed  bool
	}{
		{call: 5, steps: 2, number: 5, other: 2, want: true},
		{call: 5, steps: 2, number: 5, other: 3, want: true},
		{call: 5, steps: 2, number: 5, other: 1},
		{call: 5, steps: 2, number: 4, other: 9},
		{call: 5, steps: 2, number: 6, other: 0, final: true, want: true},
		{call: 5, steps: 2, number: 6, other: 1, failed: true},
		{call: 0, steps: 1, number: last, other: 3},
		{call: 0, steps: 1, number: last, other: 3, final: true},
		{call: last, steps: 1, number: 0, other: 1, final: true, want: true},
		{call: last, steps: 1, number: 0, other: 1, failed: true},
		{call: 5, steps: most, number: 5, other: most + 1, want: true},
		{call: 5, steps: most + 1, number: 5, other: most},
		{call: 5, steps: most + 1, number: 5, other: most + 1, want: true},
		{call: 5, steps: most + 2, number: 5, other: most + 1},
		{call: 5, steps: most + 1, number: 5, other: most + 3, want: true},
	} {
		boards := []*board{{}, {}}
		g := &Group{mapping: &mapping{boards: boards}}
		c := &call{g: g, steps: x.other - 1, word: x.number<<shiftWord | 7}
		g.rank = 1
		c.done()
		g.rank, c.steps, c.word = 0, x.steps, x.call<<shiftWord|7
		if found := c.reached(1, x.final); found != x.want || (c.err != nil) != x.failed {
			t.Errorf("%+v: reached %v, error %v", x, found, c.err)
		}
	}
}

// Elements are aligned in memory, not only from where a member's memory begins.
func TestElementsAtAreAligned(t *testing.T) {
	b := raw(make([]uint64, 10))
	for at := range uint64(8) {
		if e := elementsAt[uint64](b[4:], at, 0, 1); (e != nil) != (at == 4) {
			t.Errorf("at %d: %v", at, e)
		}
	}
}
