package lan

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"softrdma/internal/fabric/dcb"
)

// A crew is goroutines that work on the parts of a network for a window of time, until none is left.
// The caller of run is one of them.
type crew struct {
	parts []*part // of the current window; written while left is not positive and all is done
	until dcb.Time
	left  atomic.Int32 // parts that are not begun
	done  atomic.Int32 // parts that are done
	over  atomic.Bool

	start, finish bell
	helpers       sync.WaitGroup
}

// newCrew starts the helpers of a number of workers.
func newCrew(workers int) *crew {
	c := &crew{start: newBell(), finish: newBell()}
	for range min(workers, maxWorkers) - 1 {
		c.helpers.Go(c.help)
	}
	return c
}

// end ends the helpers.
func (c *crew) end() {
	c.over.Store(true)
	close(c.start.tokens)
	c.helpers.Wait()
}

// run lets parts work until a time, together if that pays.
func (c *crew) run(parts []*part, until dcb.Time, pays bool) {
	if !pays || len(parts) == 1 {
		for _, p := range parts {
			p.run(until, math.MaxInt)
		}
		return
	}
	c.parts, c.until = parts, until
	c.done.Store(0)
	c.left.Store(int32(len(parts)))
	c.start.ring()
	c.work()
	c.finish.wait(func() bool { return int(c.done.Load()) == len(parts) })
}

// work works on parts until all are begun.
func (c *crew) work() {
	for c.left.Load() > 0 {
		i := c.left.Add(-1)
		if i < 0 {
			return
		}
		parts := c.parts
		p := parts[len(parts)-1-int(i)]
		p.run(c.until, math.MaxInt)
		if int(c.done.Add(1)) == len(parts) {
			c.finish.ring()
		}
	}
}

func (c *crew) help() {
	for !c.over.Load() {
		c.work()
		c.start.wait(func() bool { return c.left.Load() > 0 || c.over.Load() })
	}
}

// A bell wakes goroutines that wait for a condition. A wait is mostly short, so it begins with asking
// again and again.
type bell struct {
	sleepers atomic.Int32
	tokens   chan struct{}
}

// maxWorkers is the most goroutines that work on a network.
const maxWorkers = 64

func newBell() bell { return bell{tokens: make(chan struct{}, maxWorkers)} }

// turns is how often a wait asks before it sleeps.
const turns = 500

func (b *bell) wait(ready func() bool) {
	for range turns {
		if ready() {
			return
		}
		runtime.Gosched()
	}
	for !ready() {
		b.sleepers.Add(1)
		if ready() {
			return // the next ring leaves a token too many, which wakes a goroutine too early at most
		}
		<-b.tokens
	}
}

// ring wakes the goroutines that wait.
func (b *bell) ring() {
	for range b.sleepers.Swap(0) {
		select {
		case b.tokens <- struct{}{}:
		default: // as many tokens as goroutines at most
			return
		}
	}
}
