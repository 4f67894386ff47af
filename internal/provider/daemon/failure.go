//go:build linux

package daemon

import (
	"errors"
	"syscall"

	"softrdma/internal/cmid"
	"softrdma/internal/object"
	"softrdma/internal/uverbs/uapi"
)

// A failureError is a call that the daemon refused: its text names the reason,
// and the number stands for what the adapter's errors are.
type failureError struct {
	text string
	no   syscall.Errno
}

// failure is the error of a reply, nil for none.
func failure(result int64, text []byte) error {
	if result >= 0 {
		return nil
	}
	return &failureError{string(text), syscall.Errno(-result)}
}

func (e *failureError) Error() string {
	if e.text == "" {
		return e.no.Error()
	}
	return e.text
}

// Unwrap gives the number and what it stands for. ErrUnsupported is the
// number's own business.
func (e *failureError) Unwrap() []error {
	switch e.no {
	case syscall.EBUSY:
		return []error{e.no, object.ErrBusy}
	case syscall.EIO:
		return []error{e.no, object.ErrClosed}
	case syscall.EADDRINUSE:
		return []error{e.no, cmid.ErrAddrInUse}
	case syscall.EADDRNOTAVAIL:
		return []error{e.no, cmid.ErrAddrNotAvail}
	case uapi.ErrnoOver:
		return []error{e.no, cmid.ErrOver}
	}
	return []error{e.no}
}

// settled is the error of giving up an object: none where the device is gone,
// and everything with it.
func settled(err error) error {
	if errors.Is(err, object.ErrClosed) {
		return nil
	}
	return err
}
