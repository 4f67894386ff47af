//go:build unix

package demo

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/measure"
)

// pollRead fills b from the connection without sleeping.
func pollRead(conn net.Conn, b []byte) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	single := runtime.GOMAXPROCS(0) == 1
	got := 0
	for got < len(b) {
		n, failed := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			n, failed = unix.Read(int(fd), b[got:])
			return true
		})
		switch {
		case err != nil:
			return err
		case errors.Is(failed, unix.EAGAIN) || errors.Is(failed, unix.EINTR):
			if single {
				measure.Yield()
			}
		case failed != nil:
			return failed
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			got += n
		}
	}
	return nil
}
