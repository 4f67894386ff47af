package adapter

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// With a single processor for Go, a poller in vain must let others run: what it
// waits for may be theirs to send.
func TestPollInVainLetsOtherGoroutinesRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := Open(Config{Networks: networks(newStub("127.0.0.1:4791")), Manual: true})
	defer d.Close()
	cq, err := d.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Bool
	go func() { ran.Store(true) }()
	for n := 0; !ran.Load(); n++ { // both goroutines share the one processor
		if n == 4*yieldAfter {
			t.Fatalf("no other goroutine ran during %d polls", n)
		}
		cq.Progress()
	}
}
