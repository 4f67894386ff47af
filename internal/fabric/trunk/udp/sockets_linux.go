package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// bufferSize is the size of a socket's buffers: for the windows of several trunks.
const bufferSize = 4 << 20

// Sockets are the sockets of the peers, by number.
type Sockets struct {
	epoll int
	fds   []int
	in    []inbox // by peer
	out   outbox
}

// Open opens sockets from a local address to peers, which have different addresses. An
// unspecified local address is that of the interface to the peer. No other process gets the
// local port.
func Open(local netip.AddrPort, peers []netip.AddrPort) (*Sockets, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	s := &Sockets{epoll: epoll}
	for i, p := range peers {
		if err := s.open(local, p, false); err != nil {
			s.Close()
			return nil, fmt.Errorf("UDP from %s to %v: %w", from(local), peers[i], err)
		}
	}
	for _, fd := range s.fds { // those who come later must not share the address
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0); err != nil {
			s.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	return s, nil
}

// from describes a local address, which may be that of the interface to the peer.
func from(local netip.AddrPort) string {
	if a := local.Addr(); !a.IsValid() || a.IsUnspecified() {
		return fmt.Sprintf("port %d", local.Port())
	}
	return local.String()
}

// open opens the socket to a peer. The first one of a family is bound without SO_REUSEADDR, so
// that another process with the address is noticed; it sets that afterwards, for the next.
// shared says that a Listener has the address already.
func (s *Sockets) open(local, peer netip.AddrPort, shared bool) error {
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	family := unix.AF_INET
	addr := local.Addr().Unmap()
	if peer.Addr().Is6() {
		family = unix.AF_INET6
	}
	if addr.IsUnspecified() || !addr.IsValid() {
		addr = netip.IPv4Unspecified()
		if family == unix.AF_INET6 {
			addr = netip.IPv6Unspecified()
		}
	}
	if addr.Is4() != peer.Addr().Is4() {
		return errors.New("expected two addresses of the same family")
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	first := !shared
	for _, other := range s.fds {
		f, _ := unix.GetsockoptInt(other, unix.SOL_SOCKET, unix.SO_DOMAIN)
		first = first && f != family
	}
	s.fds = append(s.fds, fd)
	for _, o := range [...]int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, bufferSize) != nil { // not root
			plain := map[int]int{unix.SO_RCVBUFFORCE: unix.SO_RCVBUF, unix.SO_SNDBUFFORCE: unix.SO_SNDBUF}[o]
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bufferSize)
		}
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if !first {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(addr, local.Port()))); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Connect(fd, sockaddr(peer)); err != nil {
		return os.NewSyscallError("connect", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) // without it, packets come one by one
	s.in = append(s.in, inbox{})
	err = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// FD returns the descriptor that is readable while a packet or an error waits.
func (s *Sockets) FD() int { return s.epoll }

// Close closes the sockets.
func (s *Sockets) Close() {
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
	_ = unix.Close(s.epoll)
}
