//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A host is the local address of a link, and makes sockets for it.
type host struct {
	cfg   Config
	local netip.AddrPort
	zone  uint32 // scope of link-local IPv6 addresses
}

// findInterface finds the interface for multicast and for link-local addresses.
func (h *host) findInterface() error {
	i, err := interfaceOf(h.local.Addr())
	if err != nil && (h.cfg.Interface == 0 || h.local.Addr().Zone() != "") {
		return fmt.Errorf("open UDP link on %v: %w: expected an address of this host", h.local, err)
	}
	if h.cfg.Interface == 0 {
		h.cfg.Interface = i.Index
	}
	if h.local.Addr().Zone() != "" {
		h.zone = uint32(i.Index)
	}
	return nil
}

// bindReceiving makes the receiving socket, and completes the local address with its port. With
// shared, other links may use the address and port as well.
func (h *host) bindReceiving(shared bool) (endpoint, error) {
	e, err := h.newEndpoint()
	if err != nil {
		return e, fmt.Errorf("open UDP link on %v: %w", h.local, err)
	}
	if shared {
		err = shareable(e.fd)
	}
	if err == nil {
		if err = bind(e.fd, h.local, h.zone); err != nil {
			err = bindError(h.local, err)
		}
	}
	if err == nil {
		h.local, err = localOf(e.fd, h.local)
	}
	if err != nil {
		e.close()
		return noEndpoint, err
	}
	return e, nil
}

// newEndpoint makes a socket with the options for sending.
func (h *host) newEndpoint() (endpoint, error) {
	e := noEndpoint
	family := unix.AF_INET6
	if h.local.Addr().Is4() {
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
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, h.cfg.SendBuffer)
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
func (h *host) prepareReceive(fd int) {
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, h.cfg.ReceiveBuffer)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	if h.local.Addr().Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
	}
}

// prepareMulticast lets a socket send to groups through the link's interface, and to
// members on this host.
func (h *host) prepareMulticast(fd int) {
	if h.local.Addr().Is4() {
		_ = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(h.cfg.Interface)})
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, h.cfg.Interface)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1)
	}
}

// dial makes a flow's socket.
func (h *host) dial(dst netip.AddrPort, port uint16) (*endpoint, netip.AddrPort, error) {
	e, err := h.newEndpoint()
	if err != nil {
		return nil, dst, err
	}
	src, err := h.prepareFlow(&e, dst, port)
	if err != nil {
		e.close()
		return nil, dst, err
	}
	return &e, src, nil
}

func (h *host) prepareFlow(e *endpoint, dst netip.AddrPort, port uint16) (netip.AddrPort, error) {
	dropAll(e.fd)
	h.prepareMulticast(e.fd)
	if err := h.bindFlow(e.fd, port); err != nil {
		return dst, err
	}
	src, err := localOf(e.fd, h.local)
	if err != nil {
		return dst, err
	}
	// IP_RECVERR puts ICMP errors into the socket's error queue. The next send returns the
	// last one unless they are read from there first.
	if h.local.Addr().Is4() {
		if !dst.Addr().IsMulticast() {
			e.first, e.counts = identify(e.fd, src, dst)
			e.connected = e.counts
		}
		return src, unix.SetsockoptInt(e.fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	}
	if err := unix.SetsockoptInt(e.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1); err != nil {
		return dst, err
	}
	// IPv6 has no identification field that connecting would make random. A peer without a
	// route is refused when something is sent, not here.
	e.connected = unix.Connect(e.fd, sockaddr(dst, h.zone)) == nil
	return src, nil
}

// bindFlow binds to the wanted source port, then to others, and finally to any free port.
func (h *host) bindFlow(fd int, port uint16) error {
	for i := range portTries {
		err := bind(fd, netip.AddrPortFrom(h.local.Addr(), portAfter(port, i)), h.zone)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	if err := bind(fd, netip.AddrPortFrom(h.local.Addr(), 0), h.zone); err != nil {
		return fmt.Errorf("no source port: %w", err)
	}
	return nil
}

func (h *host) destination(dst netip.AddrPort) (d destination) {
	if dst.Addr().Is4() {
		s := (*unix.RawSockaddrInet4)(unsafe.Pointer(&d.name))
		s.Family, s.Port, s.Addr = unix.AF_INET, swap(dst.Port()), dst.Addr().As4()
		d.len = unix.SizeofSockaddrInet4
		return d
	}
	z := sockaddr(dst, h.zone).(*unix.SockaddrInet6)
	d.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swap(dst.Port()), Addr: z.Addr, Scope_id: z.ZoneId}
	d.len = unix.SizeofSockaddrInet6
	return d
}
