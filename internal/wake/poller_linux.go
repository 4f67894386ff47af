package wake

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxThreads is the maximum number of connections of this process that wait on threads of their own.
const MaxThreads = 256

var threads atomic.Int32

var errThreads = errors.New("too many connections wait on threads of their own")

// LeavePoller returns a blocking descriptor of a connection, unless MaxThreads connections have
// one. The caller closes the connection itself, and later the descriptor by CloseDescriptor. A
// goroutine that waits on it occupies a thread. The system wakes that at once, while Go's poller
// and scheduler take several times as long, and even longer if polling programs keep all
// processors busy.
func LeavePoller(c syscall.Conn) (fd int, err error) {
	if threads.Add(1) > MaxThreads {
		threads.Add(-1)
		return -1, errThreads
	}
	if fd, err = blocking(c); err != nil {
		threads.Add(-1)
	}
	return fd, err
}

// CloseDescriptor closes what LeavePoller has returned.
func CloseDescriptor(fd int) {
	_ = unix.Close(fd)
	threads.Add(-1)
}

func blocking(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return -1, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	return fd, nil
}
