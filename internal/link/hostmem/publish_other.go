//go:build !amd64 || race

package hostmem

import (
	"sync/atomic"
	"unsafe"
)

// storeRelease stores v behind all earlier stores. The race detector knows only the
// operations of sync/atomic.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// stream copies so many lines. storeRelease is barrier enough.
func stream(dst, src *byte, lines int) {
	copy(unsafe.Slice(dst, lines*lineSize), unsafe.Slice(src, lines*lineSize))
}

func awaitStream() {}
