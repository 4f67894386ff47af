//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/link"
	"softrdma/internal/link/wake"
)

// A Link is a link.Datagrams over UDP sockets.
type Link struct {
	life    wake.Lifetime
	cfg     Config
	local   netip.AddrPort
	zone    uint32 // scope of link-local IPv6 addresses
	rx      endpoint
	sleeper wake.Sleeper
	watched int // see Watch; -1 if not set
	flows   flowTable
	stale   atomic.Bool // flows has sockets to trim
	in      receiver
	out     sender
	group   groupSet

	reports reports

	receiveBuffer int
	keeper        int // of Slots; -1 if there is none
}

var (
	_ link.Datagrams = (*Link)(nil)
	_ link.Watcher   = (*Link)(nil)
)

// An endpoint is a socket with the header fields that were last set on it.
type endpoint struct {
	fd        int
	connected bool
	counts    bool // identifications count up from first, see link.Numbering
	first     uint16
	tos, hops int // -1 before the first
	segment   int // of datagrams without a control message, see setSegment; 0 if not set
	stage     stage
}

// noEndpoint has no socket, and the header fields of a new one.
var noEndpoint = endpoint{fd: -1, tos: -1, hops: -1}

func (e *endpoint) close() {
	_ = unix.Close(e.fd)
	e.stage.free()
}

// Open opens the link of one local address. Port 0 chooses a free one. The address must be a
// unicast address of this host, and no other link may be open on it.
func Open(local netip.AddrPort, cfg Config) (*Link, error) { return open(local, cfg, false) }

// open implements Open. With shared, other links may use the address and port as well.
func open(local netip.AddrPort, cfg Config, shared bool) (*Link, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	l := newLink(local, cfg)
	return l.start(func() error { return l.bindReceiving(shared) })
}

func newLink(local netip.AddrPort, cfg Config) *Link {
	l := &Link{cfg: cfg.withDefaults(), local: local, watched: -1, keeper: -1}
	l.rx, l.group.epoll = noEndpoint, -1
	return l
}

// start returns the link when it is ready. Receive makes the receiving socket.
func (l *Link) start(receive func() error) (*Link, error) {
	l.life.Init(l.free)
	err := l.sleeper.Init()
	if err == nil {
		err = l.openAll(receive)
	}
	if err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

func (l *Link) openAll(receive func() error) (err error) {
	if err := l.findInterface(); err != nil {
		return err
	}
	if err := receive(); err != nil {
		return err
	}
	l.prepareReceive(l.rx.fd)
	l.prepareMulticast(l.rx.fd)
	granted, err := unix.GetsockoptInt(l.rx.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	// Measured: single packets of 1 to 4 KB, with the kernel's bookkeeping, fill up to .45 of
	// the granted size; coalesced ones .83.
	l.receiveBuffer = granted * 45 / 100
	if err := l.group.init(); err != nil {
		return err
	}
	l.in.init(l.local)
	l.out.init(l.rx.fd, l.cfg)
	l.flows = newFlowTable(l.cfg.MaxFlowSockets, keptFlows)
	return nil
}

// bindReceiving makes the receiving socket. With shared, other links may use the address and
// port as well.
func (l *Link) bindReceiving(shared bool) (err error) {
	if l.rx, err = newEndpoint(l.local, l.cfg); err != nil {
		return fmt.Errorf("open UDP link on %v: %w", l.local, err)
	}
	if shared {
		if err := shareable(l.rx.fd); err != nil {
			return err
		}
	}
	if err := bind(l.rx.fd, l.local, l.zone); err != nil {
		return bindError(l.local, err)
	}
	l.local, err = localOf(l.rx.fd, l.local)
	return err
}

// free closes everything. It runs when no call is in progress.
func (l *Link) free() {
	l.flows.each((*endpoint).close)
	l.out.splicer.close()
	l.out.splicer.kernel.close()
	l.group.free()
	l.sleeper.Free()
	for _, fd := range []int{l.rx.fd, l.keeper} {
		if fd >= 0 {
			inherit.Remove(fd)
			_ = unix.Close(fd)
		}
	}
}

// Close makes every call on the link, current and later ones, end with link.ErrClosed.
func (l *Link) Close() error {
	l.life.Close(l.sleeper.Interrupt)
	return nil
}

// Local returns the address and port that peers send to.
func (l *Link) Local() netip.AddrPort { return l.local }

// Capabilities implements link.Packets. The receive buffer is the total size of single packets
// of 1 to 4 KB that fit in.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{
		Packets: link.MaxPackets, Bytes: link.MaxBatch,
		ReceiveBuffer: l.receiveBuffer, Segmentation: l.out.segments > 1,
		Watcher: l, Reporter: l, Sharer: l,
	}
}

// findInterface finds the interface for multicast and for link-local addresses.
func (l *Link) findInterface() error {
	i, err := interfaceOf(l.local.Addr())
	if err != nil && (l.cfg.Interface == 0 || l.local.Addr().Zone() != "") {
		return fmt.Errorf("open UDP link on %v: %w: expected an address of this host", l.local, err)
	}
	if l.cfg.Interface == 0 {
		l.cfg.Interface = i.Index
	}
	if l.local.Addr().Zone() != "" {
		l.zone = uint32(i.Index)
	}
	return nil
}

// newEndpoint makes a socket with the options for sending.
func newEndpoint(local netip.AddrPort, cfg Config) (endpoint, error) {
	e := noEndpoint
	family := unix.AF_INET6
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return e, os.NewSyscallError("socket", err)
	}
	e.fd = fd
	// Never fragment: RoCE v2 forbids it (A17.3.1.1.5), and otherwise the identification is
	// unknown.
	if family == unix.AF_INET {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	} else {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
			// Linux's Soft RoCE sends UDP checksum 0, as annex A17.3.2.4 requires, over IPv6
			// too, where sockets only accept it if told to. The ICRC protects the packet.
			unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1))
	}
	if err != nil {
		_ = unix.Close(fd)
		e.fd = -1
		return e, fmt.Errorf("set up the socket: %w", err)
	}
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
	return e, nil
}

// setBuffer sets a buffer's size. Without privileges the system's limit applies.
func setBuffer(fd, force, plain, n int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, n)
	}
}

// prepareReceive sets the options for receiving. Failures are harmless: a system without
// coalescing delivers single packets.
func (l *Link) prepareReceive(fd int) {
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, l.cfg.ReceiveBuffer)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	if l.local.Addr().Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
	}
}

// prepareMulticast lets a socket send to groups through the link's interface, and to
// members on this host.
func (l *Link) prepareMulticast(fd int) {
	if l.local.Addr().Is4() {
		_ = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(l.cfg.Interface)})
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, l.cfg.Interface)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1)
	}
}

func bind(fd int, a netip.AddrPort, zone uint32) error {
	return unix.Bind(fd, sockaddr(a, zone))
}

func sockaddr(a netip.AddrPort, zone uint32) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	s := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().IsLinkLocalUnicast() || a.Addr().IsLinkLocalMulticast() || a.Addr().IsInterfaceLocalMulticast() {
		s.ZoneId = zone
	}
	return s
}

// localOf completes an address with the port that the system chose.
func localOf(fd int, a netip.AddrPort) (netip.AddrPort, error) {
	s, err := unix.Getsockname(fd)
	if err != nil {
		return a, os.NewSyscallError("getsockname", err)
	}
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(a.Addr(), uint16(s.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(a.Addr(), uint16(s.Port)), nil
	}
	return a, errors.New("getsockname: unexpected address family")
}

func bindError(local netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("address %v already in use by another device; close that one, take another address "+
			"(any of 127.0.0.0/8 works on the loopback) or another port. Programs that share the address of a softrdma exec or "+
			"daemon keep it when that has ended. Linux's own Soft RoCE (rdma_rxe) takes port 4791 "+
			"of every address while it has a device: %w", local, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("open UDP link on %v: expected an address of this host: %w", local, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("open UDP link on %v: the system reserves port %s: %w", local, strconv.Itoa(int(local.Port())), err)
	}
	return fmt.Errorf("open UDP link on %v: %w", local, err)
}

// A destination is a peer's address in the form for sendmsg: a sockaddr_in or sockaddr_in6,
// both with family, port and address at fixed offsets.
type destination struct {
	name unix.RawSockaddrInet6
	len  uint32
}

func (l *Link) destination(dst netip.AddrPort) (d destination) {
	if dst.Addr().Is4() {
		s := (*unix.RawSockaddrInet4)(unsafe.Pointer(&d.name))
		s.Family, s.Port, s.Addr = unix.AF_INET, swap(dst.Port()), dst.Addr().As4()
		d.len = unix.SizeofSockaddrInet4
		return d
	}
	z := sockaddr(dst, l.zone).(*unix.SockaddrInet6)
	d.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swap(dst.Port()), Addr: z.Addr, Scope_id: z.ZoneId}
	d.len = unix.SizeofSockaddrInet6
	return d
}

// swap converts a port to or from network byte order.
func swap(port uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(b[0])<<8 | uint16(b[1])
}
