package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/link"
)

// An epollLink is a link.Streams over TCP sockets watched by one epoll.
type epollLink struct {
	base
	cfg   Config
	zone  uint32 // scope of link-local IPv6 addresses
	epoll int
	event int // eventfd that ends a Wait

	state  atomic.Uint32
	closed atomic.Bool
	life   sync.RWMutex // held by calls of other goroutines than the lane; Close waits for them

	// The lane's:
	owners  []any // by descriptor
	open    map[int]struct{}
	reports [maxReports]unix.EpollEvent
	iov     [maxPieces + 1]unix.Iovec // one for the header of a chunk
	head    unix.Msghdr
}

const (
	// maxReports limits the events of one epoll call.
	maxReports = 128

	// maxPieces limits the pieces of one call. The system's limit is 1024 (IOV_MAX).
	maxPieces = 512

	// always is the event mask of every socket. It is edge-triggered: each event is reported
	// once.
	always = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff
)

// Open opens the link of one local address. Any number of links, of this and other processes,
// may be open on an address, because each port is allocated separately.
func Open(local netip.Addr, cfg Config) (link.Streams, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	l := &epollLink{base: base{local}, cfg: cfg, epoll: -1, event: -1, open: make(map[int]struct{})}
	if z := local.Zone(); z != "" {
		if l.zone, err = zoneIndex(z); err != nil {
			return nil, fmt.Errorf("open TCP link on %v: %w", local, err)
		}
	}
	if err := l.init(); err != nil {
		l.free()
		return nil, fmt.Errorf("open TCP link on %v: %w", local, err)
	}
	return l, nil
}

func zoneIndex(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, err
	}
	return uint32(i.Index), nil
}

func (l *epollLink) init() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	// Binding a socket checks that the address belongs to this host.
	fd, err := l.socket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, l.sockaddr(netip.AddrPortFrom(l.local, 0))); err != nil {
		return fmt.Errorf("expected an address of this host: %w", os.NewSyscallError("bind", err))
	}
	if name := l.cfg.Congestion; name != "" {
		return congestion(fd, name)
	}
	return nil
}

// Close closes every stream and listener, and makes current and later calls of Wait end with
// link.ErrClosed. Written data is still sent.
func (l *epollLink) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	l.life.RLock()
	l.kick()
	l.life.RUnlock()
	l.life.Lock()
	defer l.life.Unlock()
	l.free()
	return nil
}

func (l *epollLink) free() {
	for fd := range l.open {
		_ = unix.Close(fd)
	}
	clear(l.open)
	l.owners = nil
	for _, fd := range [...]int{l.epoll, l.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// socket makes a socket of the link's family.
func (l *epollLink) socket() (int, error) {
	family := unix.AF_INET6
	if l.local.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	return fd, os.NewSyscallError("socket", err)
}

// watch makes Ready report a socket.
func (l *epollLink) watch(fd int, owner any) error {
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: always, Fd: int32(fd)}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	for fd >= len(l.owners) {
		l.owners = append(l.owners, nil)
	}
	l.owners[fd] = owner
	l.open[fd] = struct{}{}
	inherit.Add(fd) // the peer is to see the end of this process
	return nil
}

// forget closes a socket, which also removes it from the epoll.
func (l *epollLink) forget(fd int) error {
	if _, ok := l.open[fd]; !ok {
		return link.ErrClosed
	}
	delete(l.open, fd)
	l.owners[fd] = nil
	inherit.Remove(fd)
	return os.NewSyscallError("close", unix.Close(fd))
}

// Ready implements link.Streams.
func (l *epollLink) Ready(list []link.Readiness) (int, error) {
	if l.closed.Load() {
		return 0, link.ErrClosed
	}
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.reports[0])),
		uintptr(min(len(list), maxReports)), 0, 0, 0)
	if e != 0 {
		if e == unix.EINTR {
			return 0, nil
		}
		return 0, os.NewSyscallError("epoll_pwait", e)
	}
	for i := range l.reports[:n] {
		r := &l.reports[i]
		gone := r.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
		list[i] = link.Readiness{
			Owner: l.owners[r.Fd], Hangup: gone,
			Readable: gone || r.Events&unix.EPOLLIN != 0,
			Writable: gone || r.Events&unix.EPOLLOUT != 0,
		}
	}
	return int(n), nil
}

func (l *epollLink) sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	s := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().IsLinkLocalUnicast() {
		s.ZoneId = l.zone
	}
	return s
}

// addrPort converts an address of the system. A link-local address gets the link's zone.
func (l *epollLink) addrPort(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(s.Addr)
		if a.IsLinkLocalUnicast() {
			a = a.WithZone(l.local.Zone())
		}
		return netip.AddrPortFrom(a, uint16(s.Port))
	}
	return netip.AddrPort{}
}

func (l *epollLink) nameOf(fd int) (netip.AddrPort, error) {
	s, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", err)
	}
	return l.addrPort(s), nil
}
