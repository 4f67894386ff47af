package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// The states of Wait.
const (
	awake    = iota // no goroutine waits, and no Wake is pending
	sleeping        // Wait is in the kernel or about to be
	woken           // a Wake that no Wait has returned for
)

// Wake ends the current or the next Wait. It makes a system call only while Wait sleeps.
func (l *epollLink) Wake() {
	if l.state.Swap(woken) != sleeping {
		return
	}
	l.life.RLock()
	defer l.life.RUnlock()
	if !l.closed.Load() {
		l.kick()
	}
}

// kick makes ppoll return. A full counter (EAGAIN) does as well.
func (l *epollLink) kick() {
	one := [8]byte{0: 1, 7: 1} // not 0 in either byte order
	_, _ = unix.Write(l.event, one[:])
}

// Wait blocks until something may be ready, Wake or Close is called or d has
// passed; d < 0 means no limit. It blocks a thread, not the scheduler.
func (l *epollLink) Wait(d time.Duration) error {
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed.Load() {
		return link.ErrClosed
	}
	if !l.state.CompareAndSwap(awake, sleeping) {
		l.state.Store(awake)
		return nil
	}
	err := l.sleep(d)
	l.state.Store(awake)
	if l.closed.Load() {
		return link.ErrClosed
	}
	return err
}

func (l *epollLink) sleep(d time.Duration) error {
	end := time.Now().Add(d)
	for {
		p := [2]unix.PollFd{
			{Fd: int32(l.epoll), Events: unix.POLLIN},
			{Fd: int32(l.event), Events: unix.POLLIN},
		}
		var timeout *unix.Timespec
		if d >= 0 {
			ts := unix.NsecToTimespec(max(time.Until(end), 0).Nanoseconds())
			timeout = &ts
		}
		n, err := unix.Ppoll(p[:], timeout, nil)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for streams: %w", err)
		}
		if p[1].Revents != 0 {
			var b [8]byte
			_, _ = unix.Read(l.event, b[:])
		}
		// Besides streams and time, only a Wake or Close ends the wait. A kick without them
		// may be the late one of a Wake that another Wait returned for.
		if err == nil && n > 0 && p[0].Revents != 0 || l.state.Load() == woken || l.closed.Load() || d >= 0 && time.Until(end) <= 0 {
			return nil
		}
	}
}
