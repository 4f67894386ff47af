package machine

import (
	"softrdma/internal/congestion"
	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumControl, func(n uint64) string { return congestion.Kind(n).String() })
}
