//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"softrdma/internal/reason"
)

// A refusal is an error of a call that has a name of its own; others are
// COMMAND_REFUSED.
type refusal struct {
	reason.Detail
	no syscall.Errno
}

func (e *refusal) Error() string { return fmt.Sprintf("%v: %v", e.Reason, e.Detail) }
func (e *refusal) Unwrap() error { return e.no }

// refuse makes a refusal.
func refuse(no syscall.Errno, r reason.Reason, expected, found uint64) error {
	return &refusal{reason.Detail{Reason: r, Expected: expected, Found: found}, no}
}

// refused counts and logs a call that failed. What programs ask for in order
// to see whether it is there is no failure.
func (s *Server) refused(p *process, name string, r *request, data []byte, err error) {
	no := errnoOf(err)
	if no == syscall.EAGAIN || no == syscall.ENOTTY {
		return
	}
	what, number := fmt.Sprintf("call %d", r.Op), uint64(r.Op)
	switch {
	case r.Op == opOpen:
		what = "open"
	case r.Op == opIoctl:
		what = "ioctl"
	case r.Op == opWrite && len(data) >= 4:
		number = uint64(binary.NativeEndian.Uint32(data))
		what = fmt.Sprintf("command %#x", number)
	}
	named := (*refusal)(nil)
	switch {
	case errors.As(err, &named):
	case no == syscall.EMFILE || no == syscall.ENFILE:
		named = noDescriptor(no)
		err = named
	default:
		named = &refusal{reason.Detail{Reason: reason.CommandRefused, Expected: number, Found: uint64(no)}, no}
		err = fmt.Errorf("%v: %w", reason.CommandRefused, err)
	}
	s.count(named.Detail)
	s.logf(named.Reason, "%v, %s, %s: %v (errno %d)", p, name, what, err, no)
}

// noDescriptor is the refusal of a server that the system gives no more
// descriptors.
func noDescriptor(no syscall.Errno) *refusal {
	return &refusal{reason.Detail{Reason: reason.ServerDescriptors, Expected: uint64(descriptorLimit()), Found: uint64(no)}, no}
}

// count counts a refusal among those of the first device: it may be of none.
func (s *Server) count(d reason.Detail) { s.devices[0].a.Trace.Refuse(0, d) }

// logf logs a line about a refusal, as often as lines of its reason may come.
func (s *Server) logf(r reason.Reason, format string, args ...any) {
	if s.cfg.Log == nil {
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
	s.cfg.Log(line)
}

// A logLimit bounds how many lines a second each reason gets. Programs choose
// what they are refused for and how often, and must not fill the log.
type logLimit struct {
	mu sync.Mutex
	by map[reason.Reason]*logged
}

// logged is what a logLimit knows of a reason.
type logged struct {
	left    int // lines that may come at once
	since   time.Time
	omitted int
}

const (
	logBurst = 50 // lines at once
	logEvery = time.Second
)

func newLogLimit() logLimit { return logLimit{by: make(map[reason.Reason]*logged)} }

// pass reports whether a line may be logged now, and how many before it were
// not.
func (l *logLimit) pass(r reason.Reason, now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.by[r]
	if x == nil {
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
