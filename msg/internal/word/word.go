// Package word has the arithmetic of atomic operations on a peer's words.
package word

import "softrdma/verbs"

// A Kind is what an operation does with a word.
type Kind uint8

// The kinds.
const (
	Add Kind = iota + 1
	Swap
	And
	Or
	Xor
	CompareSwap
)

// An Op is an atomic operation on a peer's word.
//
// Devices add and compare-and-swap words of 64 bits. Everything else is a loop of
// compare-and-swaps on the aligned 64-bit word that contains the peer's word. So the peer's program
// takes no part in any of them, and all are atomic with each other.
type Op struct {
	Kind    Kind
	Narrow  bool  // 32 bits
	Shift   uint8 // of the 32 bits in the containing word
	Operand uint64
	Compare uint64  // of CompareSwap
	guess   uint64  // what a loop expects in the containing word
	Old64   *uint64 // where the word's former value goes, or nil
	Old32   *uint32
}

// Loop reports whether the operation may take several compare-and-swaps.
func (a *Op) Loop() bool { return a.Narrow || a.Kind != Add && a.Kind != CompareSwap }

// Fill sets the fields of a work request.
func (a *Op) Fill(r *verbs.SendWR) {
	switch {
	case a.Loop():
		r.Op, r.Compare, r.Swap = verbs.OpCompareSwap, a.guess, a.next(a.guess)
	case a.Kind == Add:
		r.Op, r.Add = verbs.OpFetchAdd, a.Operand
	default:
		r.Op, r.Compare, r.Swap = verbs.OpCompareSwap, a.Compare, a.Operand
	}
}

// Take takes what a work request found in the word. It reports whether another is necessary.
func (a *Op) Take(found uint64) (again bool) {
	if a.Loop() && found != a.guess && a.next(found) != found {
		a.guess = found
		return true
	}
	if a.Old64 != nil {
		*a.Old64 = found
	}
	if a.Old32 != nil {
		*a.Old32 = uint32(found >> a.Shift)
	}
	return false
}

// next returns what the operation makes of the containing word.
func (a *Op) next(word uint64) uint64 {
	if !a.Narrow {
		return a.apply(word)
	}
	mask := uint64(1<<32-1) << a.Shift
	part := word & mask >> a.Shift
	return word&^mask | a.apply(part)&(1<<32-1)<<a.Shift
}

func (a *Op) apply(x uint64) uint64 {
	switch a.Kind {
	case Add:
		return x + a.Operand
	case Swap:
		return a.Operand
	case And:
		return x & a.Operand
	case Or:
		return x | a.Operand
	case Xor:
		return x ^ a.Operand
	default:
		if x == a.Compare {
			return a.Operand
		}
		return x
	}
}
