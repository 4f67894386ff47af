//go:build linux

package client

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// The memory of a program may not answer. A page of a FUSE file, or of a range that has
// userfaultfd, comes when another process of the user wants it to, and only SIGKILL ends a
// system call that waits for it. So no lane makes such a call, and no connection either,
// because it has a lock of its file. A copier makes it, and the caller waits for a limited
// time.
//
// The hand-over switches no threads as long as the program answers. Each of the two
// goroutines makes the other one the next of its processor, and sleeps.
const (
	// copyTick is how often a waiting caller looks whether the copier's thread sleeps in the
	// kernel. The time in which it waits for a processor does not count.
	copyTick = 10 * time.Millisecond

	// copyWait is how long a copy may sleep. The system brings a page from a disk in less.
	copyWait = 100 * time.Millisecond

	// copyLimit is how long a copy may take, whatever its thread seems to do.
	copyLimit = 5 * time.Second

	// maxWaiting is the time for which copies of one user's programs may sleep together, and
	// waitingShare the part of the passing time that is added to it again. While it is used up,
	// copies are refused, so that new processes win no new time.
	maxWaiting   = 500 * time.Millisecond
	waitingShare = 100

	// maxStuck is how many copies of one user's programs may continue after they were given up.
	// Each keeps a thread.
	maxStuck = 16

	// freeCopiers is how many copiers of a process wait for work. Most programs have one call
	// at a time, and the goroutines of others end with their copies.
	freeCopiers = 1
)

// A waitBudget is the time for which the server waits for the memory of one user's programs.
type waitBudget struct {
	mu    sync.Mutex
	used  time.Duration
	at    time.Time    // when used was right
	stuck atomic.Int32 // copies that were given up and continue
}

// take uses d, and reports false if the user has less.
func (p *waitBudget) take(d time.Duration, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = max(0, p.used-now.Sub(p.at)/waitingShare)
	p.at = now
	if p.used+d > maxWaiting {
		return false
	}
	p.used += d
	return true
}

// out reports whether the user has no time left.
func (p *waitBudget) out() bool { return p.stuck.Load() >= maxStuck || !p.take(0, time.Now()) }

// copies are the copiers of one process.
type copies struct {
	stalled atomic.Int32 // given up, and not at their end
	mu      sync.Mutex
	free    []*copier
	after   []func() // to call when none is stalled
	closed  bool
}

// A copyKind is what a copier does.
type copyKind uint8

const (
	copyLoad copyKind = iota
	copyStore
	copyOther // calls other
)

// The states of a copier's work.
const (
	copyRuns = iota
	copyEnded
	copyLeft // the caller waits no longer
)

// A copier makes one system call after the other that may wait for the memory of a process.
type copier struct {
	process *Process
	start   chan struct{}
	done    chan struct{}
	timer   *time.Timer
	state   atomic.Uint32
	thread  atomic.Int32 // that makes the call; 0 before

	kind  copyKind
	b     []byte
	addr  uint64
	other func() error
	err   error
}

// copier returns a copier that has no work, or why there is none.
func (p *Process) copier() (*copier, error) {
	if p.copies.stalled.Load() > 0 || p.Account.waits.out() {
		return nil, p.stalled(0)
	}
	s := &p.copies
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		c := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	c := &copier{process: p, start: make(chan struct{}, 1), done: make(chan struct{}, 1), timer: time.NewTimer(copyLimit)}
	go c.run()
	return c, nil
}

// put gives a copier back.
func (s *copies) put(c *copier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free) >= freeCopiers {
		close(c.start)
		return
	}
	s.free = append(s.free, c)
}

// close ends the copiers that have no work. The others end with their work.
func (s *copies) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.free {
		close(c.start)
	}
	s.free = nil
}

// AfterCopies calls f when no copy that was given up can touch memory of this process any
// more, now or later.
func (p *Process) AfterCopies(f func()) {
	s := &p.copies
	s.mu.Lock()
	if s.stalled.Load() > 0 {
		s.after = append(s.after, f)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f()
}

// copy has a copier copy to or from the process.
func (p *Process) copy(kind copyKind, b []byte, addr uint64) error {
	if len(b) == 0 {
		return nil
	}
	c, err := p.copier()
	if err != nil {
		return err
	}
	c.kind, c.b, c.addr = kind, b, addr
	return c.do()
}

// call has a copier call f, which must not use what changes after the call.
func (p *Process) call(f func() error) error {
	c, err := p.copier()
	if err != nil {
		return err
	}
	c.kind, c.other = copyOther, f
	return c.do()
}

// do executes what the copier has been given, and returns the copier unless it is stuck.
func (c *copier) do() error {
	c.thread.Store(0)
	c.state.Store(copyRuns)
	c.timer.Reset(copyTick)
	c.start <- struct{}{}
	if !c.wait() {
		return c.process.stalled(c.addr)
	}
	c.timer.Stop()
	err := c.err
	c.b, c.other, c.err = nil, nil, nil
	c.process.copies.put(c)
	return err
}

// wait waits for the end of the work, and reports false if the caller has given it up.
func (c *copier) wait() bool {
	var slept, waited time.Duration
	for {
		select {
		case <-c.done:
			return true
		case now := <-c.timer.C:
			waited += copyTick
			if c.sleeps() {
				slept += copyTick
				if !c.process.Account.waits.take(copyTick, now) {
					slept = copyWait
				}
			}
		}
		if slept < copyWait && waited < copyLimit {
			c.timer.Reset(copyTick)
			continue
		}
		if c.leave() {
			return false
		}
		<-c.done
		return true
	}
}

// leave gives the work up, and reports false if it has ended.
func (c *copier) leave() bool {
	s := &c.process.copies
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.state.CompareAndSwap(copyRuns, copyLeft) {
		return false
	}
	s.stalled.Add(1)
	c.process.Account.waits.stuck.Add(1)
	return true
}

// sleeps reports whether the copier's thread sleeps in the kernel.
func (c *copier) sleeps() bool {
	thread := c.thread.Load()
	if thread == 0 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	if err != nil {
		return true
	}
	_, state, found := bytes.Cut(b, []byte(") "))
	return !found || state[0] != 'R'
}

func (c *copier) run() {
	for range c.start {
		c.thread.Store(int32(unix.Gettid()))
		switch c.kind {
		case copyLoad:
			c.err = c.process.load(c.b, c.addr)
		case copyStore:
			c.err = c.process.store(c.addr, c.b)
		case copyOther:
			c.err = c.other()
		}
		if !c.state.CompareAndSwap(copyRuns, copyEnded) {
			c.returned()
			return
		}
		c.done <- struct{}{}
	}
}

// returned ends a copier whose work was given up and has ended now.
func (c *copier) returned() {
	s := &c.process.copies
	s.mu.Lock()
	defer s.mu.Unlock()
	c.process.Account.waits.stuck.Add(-1)
	if s.stalled.Add(-1) > 0 {
		return
	}
	for _, f := range s.after {
		f()
	}
	s.after = nil
}

// stalled is the refusal of a copy from or to memory that does not answer.
func (p *Process) stalled(addr uint64) error {
	why := reason.Detail{Reason: reason.ClientStalled, Expected: uint64(copyWait / time.Millisecond), Found: addr}
	if r := p.refusals; r != nil {
		r.Count(why)
		r.Logf(why.Reason, "%v: %v: %v", p, why.Reason, why)
	}
	return &Refusal{why, syscall.ETIMEDOUT}
}
