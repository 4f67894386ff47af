//go:build linux

package client

import (
	"errors"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// Errno returns the number that a program gets for an error, the same as from the
// kernel.
func Errno(err error) syscall.Errno {
	var no syscall.Errno
	var attr *qp.RangeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no):
		return no
	case errors.Is(err, adapter.ErrBusy):
		return syscall.EBUSY
	case errors.Is(err, adapter.ErrClosed):
		return syscall.EIO
	case errors.Is(err, errors.ErrUnsupported):
		return syscall.EOPNOTSUPP
	case errors.As(err, &attr), errors.Is(err, memory.ErrAccess), errors.Is(err, memory.ErrBounds), errors.Is(err, memory.ErrKey):
		return syscall.EINVAL
	}
	return syscall.EINVAL
}
