//go:build linux

package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// A Refusal is a failed call with a named reason. Calls that fail without one are
// counted as COMMAND_REFUSED.
type Refusal struct {
	reason.Detail
	no syscall.Errno
}

func (e *Refusal) Error() string { return fmt.Sprintf("%v: %v", e.Reason, e.Detail) }
func (e *Refusal) Unwrap() error { return e.no }

// Refuse returns a Refusal.
func Refuse(no syscall.Errno, r reason.Reason, expected, found uint64) error {
	return &Refusal{reason.Detail{Reason: r, Expected: expected, Found: found}, no}
}

// Why returns the reason of a Refusal that an error has, or none.
func Why(err error) (d reason.Detail) {
	if why := (*Refusal)(nil); errors.As(err, &why) {
		d = why.Detail
	}
	return d
}

// Refusals counts and logs the calls that a server refuses.
type Refusals struct {
	Count func(reason.Detail)
	Log   func(line string) // nil logs nothing

	lines logLimit
}

// Call counts and logs a call that failed. A call by which a program finds out
// whether something exists (EAGAIN, ENOTTY) has not failed.
func (s *Refusals) Call(p *Process, name string, r *uapi.Request, data []byte, err error) {
	no := Errno(err)
	if no == syscall.EAGAIN || no == syscall.ENOTTY {
		return
	}
	what, number := fmt.Sprintf("call %d", r.Op), uint64(r.Op)
	switch {
	case r.Op == uapi.OpOpen:
		what = "open"
	case r.Op == uapi.OpSlot:
		what = "slot"
	case r.Op == uapi.OpIoctl:
		what = "ioctl"
	case r.Op == uapi.OpWrite && len(data) >= 4:
		number = uint64(binary.NativeEndian.Uint32(data))
		what = fmt.Sprintf("command %#x", number)
	}
	named := (*Refusal)(nil)
	switch {
	case errors.As(err, &named):
	case no == syscall.EMFILE || no == syscall.ENFILE:
		named = NoDescriptor(no)
		err = named
	default:
		named = &Refusal{reason.Detail{Reason: reason.CommandRefused, Expected: number, Found: uint64(no)}, no}
		err = fmt.Errorf("%v: %w", reason.CommandRefused, err)
	}
	s.Count(named.Detail)
	s.Logf(named.Reason, "%v, %s, %s: %v (errno %d)", p, name, what, err, no)
}

// NoDescriptor returns the refusal of a server that has no descriptors left.
func NoDescriptor(no syscall.Errno) *Refusal {
	return &Refusal{reason.Detail{Reason: reason.ServerDescriptors, Expected: uint64(descriptorLimit()), Found: uint64(no)}, no}
}

// Logf logs a line about a refusal, unless too many lines of its reason came before.
func (s *Refusals) Logf(r reason.Reason, format string, args ...any) {
	if s.Log == nil {
		return
	}
	omitted, ok := s.lines.pass(r, time.Now())
	if !ok {
		return
	}
	line := fmt.Sprintf(format, args...)
	if omitted > 0 {
		line = fmt.Sprintf("%s (%d more lines of %v were left out before)", line, omitted, r)
	}
	s.Log(line)
}

// A logLimit bounds how many lines a second each reason gets. Programs choose
// what they are refused for and how often, and must not fill the log.
type logLimit struct {
	mu sync.Mutex
	by map[reason.Reason]*logged
}

// logged is the state of a logLimit for one reason.
type logged struct {
	left    int // lines that may come at once
	since   time.Time
	omitted int
}

const (
	logBurst = 50 // lines at once
	logEvery = time.Second
)

// pass reports whether a line may be logged now, and how many before it were
// not.
func (l *logLimit) pass(r reason.Reason, now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.by[r]
	if x == nil {
		if l.by == nil {
			l.by = make(map[reason.Reason]*logged)
		}
		x = &logged{left: logBurst, since: now}
		l.by[r] = x
	}
	if n := now.Sub(x.since) / logEvery; n > 0 {
		x.left = min(x.left+int(min(n, logBurst)), logBurst)
		x.since = x.since.Add(n * logEvery)
	}
	if x.left == 0 {
		x.omitted++
		return 0, false
	}
	x.left--
	omitted, x.omitted = x.omitted, 0
	return omitted, true
}
