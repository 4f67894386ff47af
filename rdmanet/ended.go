package rdmanet

import (
	"net"
	"os"
	"syscall"

	"softrdma/internal/reason"
)

// The errors of calls that this program itself has ended: what package net returns,
// with the named reason.
var (
	errClosed = named(reason.SocketClosed, net.ErrClosed) // after Close
	errPipe   = named(reason.SocketShut, syscall.EPIPE)   // of writing when the peer reads no more
	errLate   = timeout{named(reason.WaitEnded, os.ErrDeadlineExceeded)}
)

// named adds a reason to an error of the standard library. All of these have one
// thing expected and none found.
func named(r reason.Reason, err error) error {
	return &reason.Error{Detail: reason.Detail{Reason: r, Expected: 1}, Text: err.Error(), Cause: err}
}

// A timeout is an error whose Timeout method returns true, as *net.OpError asks the
// error directly below it.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// Unwrap returns the error.
func (t timeout) Unwrap() error { return t.error }
