package drive

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// With a single processor for Go, an unsuccessful poller must let others run: what it
// waits for may be theirs to send.
func TestPollInVainLetsOtherGoroutinesRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := newRig(t, Config{Manual: true})
	var ran atomic.Bool
	go func() { ran.Store(true) }()
	for n := 0; !ran.Load(); n++ { // both goroutines share the one processor
		if n == 4*yieldAfter {
			t.Fatalf("no other goroutine ran during %d polls", n)
		}
		r.Poll(true)
	}
}
