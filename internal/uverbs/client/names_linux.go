package client

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumSharing, func(n uint64) string { return privateCauses[n] })
}
