//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A groupSet holds the joined multicast groups, each with a socket bound to its address. An
// epoll instance reports which of them have packets.
type groupSet struct {
	host   *host
	mu     sync.Mutex
	epoll  int
	groups []group
	count  atomic.Int32
	event  [1]unix.EpollEvent
}

type group struct {
	addr netip.Addr // in the form that packets have
	fd   int
	uses int
}

func (s *groupSet) init(h *host) (err error) {
	s.host = h
	s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return os.NewSyscallError("epoll_create1", err)
}

func (s *groupSet) free() {
	for _, g := range s.groups {
		_ = unix.Close(g.fd)
	}
	if s.epoll >= 0 {
		_ = unix.Close(s.epoll)
	}
}

func (s *groupSet) find(a netip.Addr) int {
	for i := range s.groups {
		if s.groups[i].addr == a {
			return i
		}
	}
	return -1
}

// Join implements link.Datagrams, on the link's interface. A group that is joined twice must be left
// twice. Any goroutine may call it.
func (l *Link) Join(addr netip.Addr) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	return l.group.join(addr)
}

// Leave undoes one Join.
func (l *Link) Leave(addr netip.Addr) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	return l.group.leave(addr)
}

func (s *groupSet) join(addr netip.Addr) error {
	a := addr.Unmap().WithZone("")
	if !a.IsMulticast() || a.Is4() != s.host.local.Addr().Is4() {
		return fmt.Errorf("join %v on %v: %w", addr, s.host.local, ErrGroup)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(a); i >= 0 {
		s.groups[i].uses++
		return nil
	}
	fd, err := s.open(a)
	if err != nil {
		return fmt.Errorf("join %v on interface %d: %w", a, s.host.cfg.Interface, err)
	}
	s.groups = append(s.groups, group{addr: a, fd: fd, uses: 1})
	s.count.Add(1)
	return nil
}

func (s *groupSet) leave(addr netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(addr.Unmap().WithZone(""))
	if i < 0 {
		return fmt.Errorf("leave %v on %v: %w: not joined", addr, s.host.local, ErrGroup)
	}
	if s.groups[i].uses--; s.groups[i].uses > 0 {
		return nil
	}
	_ = unix.Close(s.groups[i].fd) // leaves the group and the epoll instance
	s.groups = append(s.groups[:i], s.groups[i+1:]...)
	s.count.Add(-1)
	return nil
}

// open makes a socket that receives packets to a group's address on the link's interface.
// Other processes may have sockets for the same group.
func (s *groupSet) open(a netip.Addr) (int, error) {
	e, err := s.host.newEndpoint()
	if err != nil {
		return -1, err
	}
	s.host.prepareReceive(e.fd)
	err = errors.Join(
		unix.SetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		s.host.addMembership(e.fd, a))
	if err == nil {
		err = bind(e.fd, netip.AddrPortFrom(a, s.host.local.Port()), uint32(s.host.cfg.Interface))
	}
	if err == nil {
		err = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, e.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(e.fd)})
	}
	if err != nil {
		_ = unix.Close(e.fd)
		return -1, err
	}
	return e.fd, nil
}

// addMembership joins on the link's interface only: without MULTICAST_ALL the memberships of
// other sockets on other interfaces do not apply to this one.
func (h *host) addMembership(fd int, a netip.Addr) error {
	if a.Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: a.As4(), Ifindex: int32(h.cfg.Interface)})
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: a.As16(), Interface: uint32(h.cfg.Interface)})
}

// receive reads a batch from a group's socket. Readable sockets take turns.
func (s *groupSet) receive(in *receiver, rx *link.Rx) (bool, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll), uintptr(unsafe.Pointer(&s.event)), 1, 0, 0, 0)
	if err == unix.EINTR {
		return false, 0
	}
	if err != 0 || n == 0 {
		return false, err
	}
	for i := range s.groups {
		if g := &s.groups[i]; g.fd == int(s.event[0].Fd) {
			ok, err := in.from(g.fd, rx)
			rx.Dst = netip.AddrPortFrom(g.addr, in.local.Port())
			return ok, err
		}
	}
	return false, 0
}
