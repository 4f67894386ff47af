package tcp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A listener is a link.Listener.
type listener struct {
	l    *epollLink
	fd   int
	addr netip.AddrPort
}

// Listen accepts streams on a port of the link's address.
func (l *epollLink) Listen(port uint16, backlog int, owner any) (link.Listener, error) {
	if l.closed.Load() {
		return nil, link.ErrClosed
	}
	at := netip.AddrPortFrom(l.local, port)
	fd, err := l.socket()
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", at, err)
	}
	x := &listener{l: l, fd: fd}
	if err := x.listen(at, backlog, owner); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on %v: %w", at, err)
	}
	return x, nil
}

func (x *listener) listen(at netip.AddrPort, backlog int, owner any) (err error) {
	// Recently closed connections do not keep the port.
	if err := unix.SetsockoptInt(x.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	x.l.setBuffers(x.fd) // inherited by accepted sockets
	if err := unix.Bind(x.fd, x.l.sockaddr(at)); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(x.fd, backlog); err != nil {
		return os.NewSyscallError("listen", err)
	}
	if x.addr, err = x.l.nameOf(x.fd); err != nil {
		return err
	}
	return x.l.watch(x.fd, owner)
}

// Addr implements link.Listener.
func (x *listener) Addr() netip.AddrPort { return x.addr }

// Accept implements link.Listener.
func (x *listener) Accept(owner any) (link.Stream, error) {
	for {
		fd, peer, err := unix.Accept4(x.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil, link.ErrWouldBlock
		case unix.EINTR, unix.ECONNABORTED, // the peer has gone again
			// accept(2): errors of one connection; others may be waiting.
			unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH:
			continue
		default:
			return nil, os.NewSyscallError("accept4", err)
		}
		s := &stream{l: x.l, fd: fd, remote: x.l.addrPort(peer)}
		if s.local, err = x.l.nameOf(fd); err == nil {
			err = s.start(owner)
		}
		widenSend(fd, &x.l.cfg)
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
		return s, nil
	}
}

// Close closes the listener and resets streams that were not accepted.
func (x *listener) Close() error { return x.l.forget(x.fd) }

// A stream is a link.Stream.
type stream struct {
	l      *epollLink
	fd     int
	local  netip.AddrPort
	remote netip.AddrPort
}

// Segment returns TCP's maximum segment size.
func (s *stream) Segment() int {
	n, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return 0
	}
	return n
}

// Move implements link.Mover. The stream is all in its descriptor, so it takes nothing here.
func (l *epollLink) Move(s link.Stream, _ link.Hold) (fd int, err error) {
	x := s.(*stream)
	if fd, err = unix.FcntlInt(uintptr(x.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	// The copy would keep the socket in the epoll.
	if err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, x.fd, nil); err == nil {
		err = l.forget(x.fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return fd, nil
}

// Discard implements link.Adopter.
func (*epollLink) Discard(fd int) { _ = unix.Close(fd) }

// Adopt implements link.Adopter.
func (l *epollLink) Adopt(fd int, owner any) (link.Stream, error) {
	s := &stream{l: l, fd: fd}
	peer, err := unix.Getpeername(fd)
	if err == nil {
		s.remote = l.addrPort(peer)
		if s.local, err = l.nameOf(fd); err == nil {
			err = s.start(owner)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("continue a stream: %w", err)
	}
	return s, nil
}

// Dial begins to connect to a peer.
func (l *epollLink) Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (link.Stream, error) {
	if l.closed.Load() {
		return nil, link.ErrClosed
	}
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	if err := l.checkPeer(dst); err != nil {
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	fd, err := l.socket()
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	s := &stream{l: l, fd: fd, remote: dst}
	if err := s.dial(port, tos, owner); err != nil {
		if l.forget(fd) == link.ErrClosed {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	return s, nil
}

func (s *stream) dial(port uint16, tos uint8, owner any) (err error) {
	if port == 0 {
		// The system chooses the port when it knows the peer, so that all ports are available
		// for each peer.
		err = unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	} else {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if tos != 0 {
		if err := s.setTOS(tos); err != nil {
			return err
		}
	}
	s.l.setBuffers(s.fd)
	if err := unix.Bind(s.fd, s.l.sockaddr(netip.AddrPortFrom(s.l.local, port))); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := s.start(owner); err != nil {
		return err
	}
	if err := unix.Connect(s.fd, s.l.sockaddr(s.remote)); err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		return os.NewSyscallError("connect", err)
	}
	s.local, err = s.l.nameOf(s.fd)
	return err
}

func (s *stream) setTOS(tos uint8) error {
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if s.remote.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(s.fd, level, option, int(tos)))
}

// start sets the options of a socket before or after it is connected.
func (s *stream) start(owner any) error {
	// Writes are complete messages, so there is no reason to delay them.
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := s.l.cfg.Silence().set(s.fd); err != nil {
		return err
	}
	if name := s.l.cfg.Congestion; name != "" {
		if err := congestion(s.fd, name); err != nil {
			return err
		}
	} else if s.remote.Addr().IsLoopback() || s.remote.Addr() == s.l.local {
		// Between processes of one host there is no network congestion, and a paced control
		// such as BBR only costs timers. If the system does not let this program choose the
		// control, its default is good enough.
		_ = unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	}
	return s.l.watch(s.fd, owner)
}

// setBuffers sets the requested sizes. The system limits them.
func (l *epollLink) setBuffers(fd int) {
	if n := l.cfg.ReceiveBuffer; n > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, n)
	}
	if n := l.cfg.SendBuffer; n > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// Local returns this end's address and port.
func (s *stream) Local() netip.AddrPort { return s.local }

// Remote returns the peer's address and port.
func (s *stream) Remote() netip.AddrPort { return s.remote }

// Connected implements link.Stream.
func (s *stream) Connected() error {
	n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return os.NewSyscallError("getsockopt", err)
	case n != 0:
		return os.NewSyscallError("connect", unix.Errno(n))
	}
	// Check that the socket is connected: it is also reported as writable once before connect
	// begins.
	if _, err := unix.Getpeername(s.fd); err != nil {
		return link.ErrWouldBlock
	}
	widenSend(s.fd, &s.l.cfg)
	return nil
}

// Read implements link.Stream.
func (s *stream) Read(pieces [][]byte) (int, error) {
	count, length := s.l.gather(0, 0, math.MaxInt, pieces)
	if length == 0 {
		return 0, nil
	}
	return s.readv(count)
}

// readv reads into the first pieces of the system's list.
func (s *stream) readv(count int) (int, error) {
	for {
		n, _, e := unix.RawSyscall(unix.SYS_READV, uintptr(s.fd), uintptr(unsafe.Pointer(&s.l.iov[0])), uintptr(count))
		switch {
		case e == unix.EINTR:
			continue
		case e != 0:
			return 0, failure("readv", e)
		case n == 0:
			return 0, io.EOF
		}
		return int(n), nil
	}
}

// Write writes as much as there is room for.
func (s *stream) Write(pieces [][]byte) (int, error) {
	count, length := s.l.gather(0, 0, math.MaxInt, pieces)
	if length == 0 {
		return 0, nil
	}
	return s.sendmsg(count)
}

// sendmsg sends the first pieces of the system's list.
func (s *stream) sendmsg(count int) (int, error) {
	h := &s.l.head
	h.Iov = &s.l.iov[0]
	h.SetIovlen(count)
	for {
		// Not writev: a peer that is gone must cause an error, not a signal.
		n, _, e := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(s.fd), uintptr(unsafe.Pointer(h)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, failure("sendmsg", e)
		}
	}
}

func failure(call string, e unix.Errno) error {
	if e == unix.EAGAIN {
		return link.ErrWouldBlock
	}
	return os.NewSyscallError(call, e)
}

// gather fills the system's list from entry at with limit bytes behind the first skip ones of
// pieces, as far as it has room. It returns the length of the list and the number of bytes.
func (l *epollLink) gather(at, skip, limit int, pieces [][]byte) (count, length int) {
	count = at
	for _, p := range pieces {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		p = p[skip:min(len(p), skip+limit-length)]
		skip = 0
		if len(p) == 0 || count == maxPieces {
			break
		}
		l.iov[count].Base = unsafe.SliceData(p)
		l.iov[count].SetLen(len(p))
		count++
		length += len(p)
	}
	return count, length
}

// Held implements link.Stream. The system has all bytes that Write accepted.
func (s *stream) Held() int { return 0 }

// ShutWrite implements link.Stream.
func (s *stream) ShutWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(s.fd, unix.SHUT_WR))
}

// Close implements link.Stream.
func (s *stream) Close() error { return s.l.forget(s.fd) }

// Reset implements link.Stream.
func (s *stream) Reset() error {
	return errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})),
		s.Close())
}
