package word

import (
	"math/rand/v2"
	"testing"

	"softrdma/verbs"
)

// device executes a work request on a word.
func device(r *verbs.SendWR, word *uint64) (found uint64) {
	found = *word
	if r.Op == verbs.OpFetchAdd {
		*word += r.Add
	} else if found == r.Compare {
		*word = r.Swap
	}
	return found
}

// An operation changes its word once and finds what was there, whatever others do between its work
// requests.
func TestOperationsChangeTheWordOnce(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		word := rng.Uint64() >> rng.IntN(64)
		var old64 uint64
		var old32 uint32
		x := Op{Kind: Kind(1 + seed%6), Operand: rng.Uint64(), Compare: word, Old64: &old64}
		if seed%12 >= 6 {
			x.Narrow, x.Old64, x.Old32 = true, nil, &old32
			x.Shift = uint8(rng.IntN(2) * 32)
			x.Operand = uint64(uint32(x.Operand))
			x.Compare = uint64(uint32(word >> x.Shift))
		}
		if rng.IntN(3) == 0 {
			x.Compare++
			x.Compare &= 1<<32 - 1
		}
		for again, n := true, 0; again; n++ {
			if n > 0 && n < 4 && rng.IntN(2) == 0 {
				word += 1<<32 + 1 // of others
			}
			var r verbs.SendWR
			x.Fill(&r)
			before := word
			found := device(&r, &word)
			if again = x.Take(found); again {
				if word != before {
					t.Fatalf("seed %d: the operation is repeated, and has changed the word", seed)
				}
				continue
			}
			part, want := before, result(&x, before)
			if x.Narrow {
				part = uint64(uint32(before >> x.Shift))
				want = before&^(uint64(1<<32-1)<<x.Shift) | uint64(uint32(result(&x, part)))<<x.Shift
			}
			if word != want || x.Narrow && old32 != uint32(part) || !x.Narrow && old64 != part {
				t.Fatalf("seed %d: %+v made %#x of %#x, expected %#x; found %#x %#x", seed, x, word, before, want, old64, old32)
			}
		}
	}
}

func result(x *Op, old uint64) uint64 {
	switch {
	case x.Kind == Add:
		return old + x.Operand
	case x.Kind == And:
		return old & x.Operand
	case x.Kind == Or:
		return old | x.Operand
	case x.Kind == Xor:
		return old ^ x.Operand
	case x.Kind == Swap || old == x.Compare:
		return x.Operand
	}
	return old
}
