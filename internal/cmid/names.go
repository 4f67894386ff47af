package cmid

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumIDState, func(n uint64) string { return State(n).String() })
}
