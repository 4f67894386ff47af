//go:build linux

package daemon

import (
	"errors"
	"syscall"

	"softrdma/internal/cmid"
	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A failureError is a call that the daemon refused. The number stands for the
// sentinel that a device of this process returns.
type failureError struct {
	text string
	no   syscall.Errno
	why  reason.Detail // None if the daemon gave no reason or numbers reasons otherwise
}

// failure returns the error of a reply, nil for success. named says whether the
// daemon numbers reasons as this process does.
func failure(p *uapi.Reply, text []byte, named bool) error {
	if p.Result >= 0 {
		return nil
	}
	e := &failureError{text: string(text), no: syscall.Errno(-p.Result)}
	if named {
		e.why = reason.Detail{Reason: reason.Reason(p.File), Expected: p.Rdev, Found: p.Offset}
	}
	return e
}

// Error returns the daemon's text, which says what was refused.
func (e *failureError) Error() string {
	if e.text == "" {
		return e.no.Error()
	}
	return e.text
}

// Unwrap returns the errno, the named reason, and the sentinel that the errno
// stands for. The errno itself is errors.ErrUnsupported where that fits.
func (e *failureError) Unwrap() []error {
	all := []error{e.no}
	if err := e.why.Err(); err != nil {
		all = append(all, err)
	}
	switch e.no {
	case syscall.EBUSY:
		return append(all, object.ErrBusy)
	case syscall.EIO:
		return append(all, object.ErrClosed)
	case syscall.EADDRINUSE:
		return append(all, cmid.ErrAddrInUse)
	case syscall.EADDRNOTAVAIL:
		return append(all, cmid.ErrAddrNotAvail)
	case uapi.ErrnoOver:
		return append(all, cmid.ErrOver)
	}
	if len(all) == 1 {
		all = append(all, reason.Detail{Reason: reason.CommandRefused, Found: uint64(e.no)}.Err())
	}
	return all
}

// settled returns the error of destroying an object. It is nil if the device is
// gone, because its objects are gone too.
func settled(err error) error {
	if errors.Is(err, object.ErrClosed) {
		return nil
	}
	return err
}
