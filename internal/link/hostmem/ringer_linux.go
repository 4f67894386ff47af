package hostmem

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Ringer rings a peer's bell.
type Ringer struct {
	fd     int
	socket bool
}

// one is added to an eventfd's count. Nothing reads the count, so it must grow slowly.
var one uint64 = 1

// OpenRinger takes ownership of the descriptor of a bell that a peer has passed. From a peer
// of another user it accepts only a datagram socket (see Bell).
func OpenRinger(fd int, other bool) (*Ringer, error) {
	if !other {
		return &Ringer{fd: fd}, nil
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return nil, errors.Join(unusable("type of its bell", unix.AF_UNIX, 0), unix.Close(fd))
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || domain != unix.AF_UNIX || kind != unix.SOCK_DGRAM {
		return nil, errors.Join(unusable("type of its bell", unix.AF_UNIX<<8|unix.SOCK_DGRAM, uint64(domain)<<8|uint64(kind)), unix.Close(fd))
	}
	return &Ringer{fd: fd, socket: true}, nil
}

// Ring rings the bell. It does not wait: a bell that is full has been rung already. The caller
// ensures that Close is not called meanwhile.
func (r *Ringer) Ring() {
	if r.socket {
		_ = unix.Send(r.fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(r.fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// Close closes the descriptor.
func (r *Ringer) Close() error { return os.NewSyscallError("close", unix.Close(r.fd)) }
