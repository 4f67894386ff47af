package unixmsg

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors came with a message. Their receiver closes those that were not taken.
type Descriptors []int

// Take returns a descriptor, which is the caller's to close.
func (d Descriptors) Take(i int) int {
	fd := d[i]
	d[i] = -1
	return fd
}

// Close closes the descriptors that were not taken.
func (d Descriptors) Close() {
	for i, fd := range d {
		if fd >= 0 {
			_ = unix.Close(fd)
			d[i] = -1
		}
	}
}

// Append appends all descriptors in control messages to d, and returns the sender's
// credentials if they are there.
func (d Descriptors) Append(oob []byte) (_ Descriptors, from *unix.Ucred) {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break // not made by the system
		}
		one := unix.SocketControlMessage{Header: h, Data: data}
		if fds, err := unix.ParseUnixRights(&one); err == nil {
			d = append(d, fds...)
		} else if c, err := unix.ParseUnixCredentials(&one); err == nil {
			from = c
		}
		oob = rest
	}
	return d, from
}

// ConnOf returns the connection of a socket, which it takes over.
func ConnOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "unix socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Peer returns the process at the other end of a Unix socket.
func Peer(c syscall.Conn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(e, err); err != nil {
		return nil, err
	}
	return cred, nil
}
