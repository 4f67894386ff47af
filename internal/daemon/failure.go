//go:build linux

package daemon

import (
	"syscall"

	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// A failureError is a call that the daemon refused.
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

// Unwrap returns the errno and the named reason. The errno is errors.ErrUnsupported where that fits.
func (e *failureError) Unwrap() []error {
	why := e.why
	if why.Reason == reason.None {
		why = reason.Detail{Reason: reason.CommandRefused, Found: uint64(e.no)}
	}
	return []error{e.no, why.Err()}
}
