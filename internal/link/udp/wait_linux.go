//go:build linux && !softrdma_portable

package udp

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A waiter is how one goroutine sleeps and others wake it. An eventfd is
// written only when somebody sleeps, so a Wake costs no system call otherwise.
type waiter struct {
	fd    int // eventfd
	state atomic.Uint32
	count [8]byte // what drain reads
}

// one is a number that is not 0 in either order of bytes.
var one = [8]byte{0: 1, 7: 1}

// The states of a waiter.
const (
	awake    = iota // nobody waits, no Wake is pending
	sleeping        // Wait is in the kernel or about to be
	woken           // a Wake came that no Wait has returned for
)

func (w *waiter) init() (err error) {
	w.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	return os.NewSyscallError("eventfd", err)
}

func (w *waiter) free() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
}

// kick makes ppoll return. A full counter (EAGAIN) does as well.
func (w *waiter) kick() {
	_, _ = unix.Write(w.fd, one[:])
}

// drain is called by who waits, and by one at a time.
func (w *waiter) drain() { _, _ = unix.Read(w.fd, w.count[:]) }

// Wake ends the present or the next Wait.
func (l *Link) Wake() {
	if l.wait.state.Swap(woken) == sleeping && l.enter() {
		l.wait.kick()
		l.leave()
	}
}

// Wait blocks until something can be received, Wake or Close is called or d has
// passed; d < 0 is for ever. It blocks a thread, not the scheduler.
func (l *Link) Wait(d time.Duration) error {
	if !l.enter() {
		return link.ErrClosed
	}
	defer l.leave()
	if !l.wait.state.CompareAndSwap(awake, sleeping) {
		l.wait.state.Store(awake)
		return nil
	}
	err := l.sleep(d)
	l.wait.state.Store(awake)
	if l.closed() {
		return link.ErrClosed
	}
	return err
}

func (l *Link) sleep(d time.Duration) error {
	trim := l.flows.kept.Load() && (d < 0 || d > keptTime)
	if trim { // who waited receives next, and closes them
		d = keptTime
	}
	var start time.Time
	if d > 0 {
		start = time.Now()
	}
	left := d
	for {
		p := [3]unix.PollFd{
			{Fd: int32(l.rx.fd), Events: unix.POLLIN},
			{Fd: int32(l.wait.fd), Events: unix.POLLIN},
			{Fd: int32(l.group.epoll), Events: unix.POLLIN},
		}
		var timeout *unix.Timespec
		if d >= 0 {
			ts := unix.NsecToTimespec(left.Nanoseconds())
			timeout = &ts
		}
		n, err := unix.Ppoll(p[:], timeout, nil)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for packets: %w", err)
		}
		if p[1].Revents != 0 {
			l.wait.drain()
		}
		// Beside packets and time, only a Wake or Close ends the wait: a kick
		// alone can be the late one of a Wake that another Wait returned for.
		if n > 0 && err == nil && p[0].Revents|p[2].Revents != 0 || l.wait.state.Load() == woken || l.closed() {
			return nil
		}
		if d >= 0 {
			if left = d - time.Since(start); left <= 0 || d == 0 {
				if trim {
					l.stale.Store(true)
				}
				return nil
			}
		}
	}
}
