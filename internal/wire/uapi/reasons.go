package uapi

import (
	"fmt"
	"hash/fnv"
	"sync"

	"softrdma/internal/reason"
)

// MaxInline is the largest inline data size, in bytes, that a queue pair may request. QUERY_DEVICE
// does not report it.
const MaxInline = 512

// Reasons returns a hash of the named reasons. Two sides with the same hash number the reasons
// alike and may exchange reasons as numbers.
var Reasons = sync.OnceValue(func() uint64 {
	h := fnv.New64a()
	for r := range reason.All() {
		_, _ = fmt.Fprintln(h, uint32(r), r) // never fails
	}
	return h.Sum64()
})
