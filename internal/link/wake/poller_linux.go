package wake

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// LeavePoller returns a blocking descriptor of a connection, which the caller closes after the
// connection itself. A goroutine that waits on it occupies a thread. The system wakes that at
// once, while Go's poller and scheduler take several times as long, and even longer if polling
// programs keep all processors busy.
func LeavePoller(c syscall.Conn) (fd int, err error) {
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
