package drive

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A kernelPauser is a pauser on a timer of the kernel. Postponing one of Go's timers
// does not keep Go's scheduler from waking a thread at the earlier time, and that thread takes
// the processor from a poller. The kernel forgets the earlier time.
type kernelPauser struct {
	timer       *os.File // a timerfd
	expirations [8]byte  // the worker's, for what it reads
	resumed     atomic.Bool

	mu     sync.Mutex
	fd     int
	closed bool
}

// newPauser returns the kernel's if it is asked for and a descriptor is to be had, and Go's
// otherwise.
func newPauser(kernel bool) pauser {
	if !kernel {
		return newGoPauser()
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newGoPauser()
	}
	return &kernelPauser{timer: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
}

func (p *kernelPauser) reset(t time.Duration) { p.set(max(t, 1)) }

func (p *kernelPauser) stop() { p.set(0) }

// set lets the timer expire after a time, or never if that is 0.
func (p *kernelPauser) set(t time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		_ = unix.TimerfdSettime(p.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(t))}, nil)
	}
}

func (p *kernelPauser) resume() {
	p.resumed.Store(true)
	p.set(1)
}

// wait looks for resume first: the worker's own reset may have replaced the time that resume
// set. A resume that comes later makes the timer expire.
func (p *kernelPauser) wait() {
	if p.resumed.Swap(false) {
		return
	}
	_, _ = p.timer.Read(p.expirations[:])
	p.resumed.Store(false)
}

func (p *kernelPauser) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.timer.Close()
}
