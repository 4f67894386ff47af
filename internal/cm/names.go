package cm

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumCMState, func(n uint64) string { return State(n).String() })
}
