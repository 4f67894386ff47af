//go:build !amd64 || race

package hostmem

import "sync/atomic"

// storeRelease stores v after all earlier stores. The race detector only understands the
// operations of sync/atomic.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
