package msg

import "softrdma/verbs"

// An AtomicOp is what an atomic operation does with a word and its operand.
type AtomicOp uint8

// The operations. CompareSwap64 and CompareSwap32 are apart, because they have two operands.
const (
	AtomicAdd AtomicOp = iota + 1
	AtomicSwap
	AtomicAnd
	AtomicOr
	AtomicXor
	atomicCompareSwap
)

// A wordOp is an atomic operation on a peer's word.
//
// Devices add and compare-and-swap words of 64 bits. Everything else is a loop of
// compare-and-swaps on the aligned 64-bit word that contains the peer's word. So the peer's program
// takes no part in any of them, and all are atomic with each other.
type wordOp struct {
	op      AtomicOp
	narrow  bool  // 32 bits
	shift   uint8 // of the 32 bits in the containing word
	operand uint64
	compare uint64  // of atomicCompareSwap
	guess   uint64  // what a loop expects in the containing word
	old64   *uint64 // where the word's former value goes, or nil
	old32   *uint32
}

// loop reports whether the operation may take several compare-and-swaps.
func (a *wordOp) loop() bool { return a.narrow || a.op != AtomicAdd && a.op != atomicCompareSwap }

// fill sets the fields of a work request.
func (a *wordOp) fill(r *verbs.SendWR) {
	switch {
	case a.loop():
		r.Op, r.Compare, r.Swap = verbs.OpCompareSwap, a.guess, a.next(a.guess)
	case a.op == AtomicAdd:
		r.Op, r.Add = verbs.OpFetchAdd, a.operand
	default:
		r.Op, r.Compare, r.Swap = verbs.OpCompareSwap, a.compare, a.operand
	}
}

// take takes what a work request found in the word. It reports whether another is necessary.
func (a *wordOp) take(found uint64) (again bool) {
	if a.loop() && found != a.guess && a.next(found) != found {
		a.guess = found
		return true
	}
	if a.old64 != nil {
		*a.old64 = found
	}
	if a.old32 != nil {
		*a.old32 = uint32(found >> a.shift)
	}
	return false
}

// next returns what the operation makes of the containing word.
func (a *wordOp) next(word uint64) uint64 {
	if !a.narrow {
		return a.apply(word)
	}
	mask := uint64(1<<32-1) << a.shift
	part := word & mask >> a.shift
	return word&^mask | a.apply(part)&(1<<32-1)<<a.shift
}

func (a *wordOp) apply(x uint64) uint64 {
	switch a.op {
	case AtomicAdd:
		return x + a.operand
	case AtomicSwap:
		return a.operand
	case AtomicAnd:
		return x & a.operand
	case AtomicOr:
		return x | a.operand
	case AtomicXor:
		return x ^ a.operand
	default:
		if x == a.compare {
			return a.operand
		}
		return x
	}
}
