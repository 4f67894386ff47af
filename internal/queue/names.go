package queue

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumOperation, func(n uint64) string { return Op(n).String() })
	reason.Name(reason.NumStatus, func(n uint64) string { return Status(n).String() })
}
