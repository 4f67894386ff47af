package wake

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MaxDescriptors is the maximum number of descriptors that one Sleep watches.
const MaxDescriptors = 4

// A Sleeper lets one goroutine sleep and others wake it. The eventfd is written only while a
// goroutine sleeps, so otherwise a Wake costs no system call.
type Sleeper struct {
	fd    int // eventfd
	state atomic.Uint32
	count [8]byte // what drain reads
	polls [1 + MaxDescriptors]unix.PollFd
}

// The states of a Sleeper.
const (
	awake    = iota // no goroutine sleeps, and no Wake is pending
	sleeping        // Sleep is in the kernel or about to be
	woken           // a Wake that no Sleep has returned for
)

// one is a number that is not 0 in either byte order.
var one = [8]byte{0: 1, 7: 1}

// Init makes the eventfd.
func (s *Sleeper) Init() (err error) {
	s.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	return os.NewSyscallError("eventfd", err)
}

// Free closes the eventfd of a Sleeper whose Init succeeded.
func (s *Sleeper) Free() { _ = unix.Close(s.fd) }

// Set records a Wake and reports whether Interrupt is needed to end a sleep.
func (s *Sleeper) Set() bool { return s.state.Swap(woken) == sleeping }

// Interrupt makes a sleep look at its state. A full counter (EAGAIN) does as well.
func (s *Sleeper) Interrupt() { _, _ = unix.Write(s.fd, one[:]) }

// Sleep blocks until one of the descriptors (-1 means none) is readable or has an error, Set
// and Interrupt were called, life ends, or d has passed; d < 0 means no limit. A Set before
// the Sleep makes it return at once. Sleep reports the ready descriptors, one bit for each. It
// blocks a thread, not the scheduler. One goroutine at a time calls it, inside life.
func (s *Sleeper) Sleep(life *Lifetime, d time.Duration, fds ...int) (ready uint, err error) {
	if !s.state.CompareAndSwap(awake, sleeping) {
		s.state.Store(awake)
		return 0, nil
	}
	ready, err = s.sleep(life, d, fds)
	s.state.Store(awake)
	return ready, err
}

func (s *Sleeper) sleep(life *Lifetime, d time.Duration, fds []int) (ready uint, err error) {
	var end time.Time
	if d > 0 {
		end = time.Now().Add(d)
	}
	left := d
	for {
		polls := s.polls[:1+len(fds)]
		polls[0] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN}
		for i, fd := range fds {
			polls[1+i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		}
		var timeout *unix.Timespec
		if d >= 0 {
			ts := unix.NsecToTimespec(left.Nanoseconds())
			timeout = &ts
		}
		_, err := unix.Ppoll(polls, timeout, nil)
		if err != nil && err != unix.EINTR {
			return 0, os.NewSyscallError("ppoll", err)
		}
		if err == unix.EINTR {
			clearEvents(polls)
		}
		if polls[0].Revents != 0 {
			_, _ = unix.Read(s.fd, s.count[:])
		}
		for i := range fds {
			if polls[1+i].Revents != 0 {
				ready |= 1 << i
			}
		}
		// Besides descriptors and time, only a Set or the end of life ends the sleep. An
		// Interrupt without them may be the late one of a Set that another Sleep returned for.
		if ready != 0 || s.state.Load() == woken || life.Closed() {
			return ready, nil
		}
		if d >= 0 {
			if left = time.Until(end); d == 0 || left <= 0 {
				return 0, nil
			}
		}
	}
}

// clearEvents clears the results of a failed call.
func clearEvents(polls []unix.PollFd) {
	for i := range polls {
		polls[i].Revents = 0
	}
}
