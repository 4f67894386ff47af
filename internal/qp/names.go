package qp

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumQPType, func(n uint64) string { return Type(n).String() })
	reason.Name(reason.NumQPState, func(n uint64) string { return State(n).String() })
	reason.Name(reason.NumAccess, func(n uint64) string { return Access(n).String() })
}
