//go:build race

package fabric

import "sync/atomic"

// edge tells the race detector that put happens before receive. It cannot see that if both
// ends are in one process, because they map the memory twice.
var edge atomic.Uint64

func beforePut() { edge.Add(1) }

func afterNext() { edge.Add(1) }
