package msg

// An AtomicOp is what an atomic operation does with a word and its operand.
type AtomicOp uint8

// The operations. CompareSwap64 and CompareSwap32 are apart, because they have two operands.
const (
	AtomicAdd AtomicOp = iota + 1 // the numbers are those of package word
	AtomicSwap
	AtomicAnd
	AtomicOr
	AtomicXor
)
