package port

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad/smp"
)

func init() {
	reason.Name(reason.NumPortState, func(n uint64) string { return smp.PortState(n).String() })
}
