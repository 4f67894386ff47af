//go:build !amd64 || race

package hostmem

import "sync/atomic"

// storeRelease stores v behind all earlier stores. The race detector knows only the
// operations of sync/atomic.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
