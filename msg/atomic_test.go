package msg_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"softrdma/msg"
)

var zeroes = make([]byte, 8)

func word64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
func word32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// compareSwap is the sixth operation of the tests.
const compareSwap = msg.AtomicXor + 1

// model returns what an operation makes of a word.
func model[T uint32 | uint64](op msg.AtomicOp, old, operand, compare T) T {
	switch op {
	case msg.AtomicAdd:
		return old + operand
	case msg.AtomicSwap:
		return operand
	case msg.AtomicAnd:
		return old & operand
	case msg.AtomicOr:
		return old | operand
	case msg.AtomicXor:
		return old ^ operand
	}
	if old == compare {
		return operand
	}
	return old
}

// Each operation changes the word as the model does, returns its former value, and leaves the words
// beside it alone.
func TestAtomicsAgreeWithTheModel(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		want := random(32)
		region, m := share(t, b, e, bytes.Clone(want), msg.AllowAtomic)
		for i := range 1200 {
			op := msg.AtomicOp(i%6) + msg.AtomicAdd
			var r *msg.Request
			var check func() bool
			if i%12 < 6 {
				at := 8 * rand.IntN(4)
				old, operand, compare, found := word64(want[at:]), rand.Uint64(), rand.Uint64(), new(uint64)
				if i%24 < 12 {
					compare = old
				}
				if i%5 == 0 {
					found = nil
				}
				if op == compareSwap {
					r = m.CompareSwap64(at, compare, operand, found)
				} else {
					r = m.Atomic64(op, at, operand, found)
				}
				binary.NativeEndian.PutUint64(want[at:], model(op, old, operand, compare))
				check = func() bool { return found == nil || *found == old }
			} else {
				at := 4 * rand.IntN(8)
				old, operand, compare, found := word32(want[at:]), rand.Uint32(), rand.Uint32(), new(uint32)
				if i%24 < 12 {
					compare = old
				}
				if i%5 == 0 {
					found = nil
				}
				if op == compareSwap {
					r = m.CompareSwap32(at, compare, operand, found)
				} else {
					r = m.Atomic32(op, at, operand, found)
				}
				binary.NativeEndian.PutUint32(want[at:], model(op, old, operand, compare))
				check = func() bool { return found == nil || *found == old }
			}
			wait(t, r)
			if !check() || string(peek(region.Bytes())) != string(want) {
				t.Fatalf("operation %d (%d): former value right: %v\nfound    %x\nexpected %x", i, op, check(), peek(region.Bytes()), want)
			}
		}
	})
}

// Operations of several workers on the halves of one word are atomic with each other: native ones
// and loops, of 32 and of 64 bits.
func TestAtomicsOfSeveralWorkersLoseNothing(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		region, err := b.Map(make([]byte, 16), msg.AllowAll)
		if err != nil {
			t.Fatal(err)
		}
		second, err := msg.NewWorker(a.Device(), msg.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		const rounds = 200
		var all sync.WaitGroup
		for i, w := range []*msg.Worker{a, second} {
			e := connect(t, w, b)
			m, err := e.Remote(region.Key())
			if err != nil {
				t.Fatal(err)
			}
			all.Add(1)
			go func() {
				defer all.Done()
				var list []*msg.Request
				for k := range rounds {
					list = append(list,
						m.Atomic32(msg.AtomicAdd, 0, 1, nil), // the halves of the first word
						m.Atomic32(msg.AtomicAdd, 4, 1, nil),
						m.Atomic64(msg.AtomicAdd, 8, 1<<32, nil), // native
						m.Atomic32(msg.AtomicXor, 8+halfOfLow(), 1<<(2*(k%16)+i), nil))
				}
				for _, r := range list {
					if _, err := r.Wait(within(t)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		all.Wait()
		x := peek(region.Bytes())
		var low uint32 // each worker flips its bits rounds/16 times or once more
		for k := range rounds {
			low ^= 3 << (2 * (k % 16))
		}
		if word32(x) != 2*rounds || word32(x[4:]) != 2*rounds || word64(x[8:]) != 2*rounds<<32|uint64(low) {
			t.Errorf("%d and %d, expected %d; %#x, expected %#x", word32(x), word32(x[4:]), 2*rounds, word64(x[8:]), 2*rounds<<32|uint64(low))
		}
	})
}

// halfOfLow returns the offset of the low half of a word.
func halfOfLow() int {
	b := make([]byte, 8)
	binary.NativeEndian.PutUint64(b, 1)
	if word32(b) == 1 {
		return 0
	}
	return 4
}

// An add, a fence and a fetching add of nothing: the second sees the first.
func TestFetchAfterFenceSeesTheAdd(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, make([]byte, 16), msg.AllowAtomic)
		for i := range 200 {
			var old64 uint64
			var old32 uint32
			m.Atomic64(msg.AtomicAdd, 0, 1, nil)
			m.Atomic32(msg.AtomicAdd, 8, 1, nil)
			a.Fence()
			m.Atomic64(msg.AtomicAdd, 0, 0, &old64)
			m.Atomic32(msg.AtomicAdd, 8, 0, &old32)
			wait(t, a.Flush())
			if old64 != uint64(i+1) || old32 != uint32(i+1) {
				t.Fatalf("found %d and %d, expected %d", old64, old32, i+1)
			}
		}
	})
}
