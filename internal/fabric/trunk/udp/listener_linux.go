package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Listener gets packets from peers that have no socket of their own.
type Listener struct {
	conn *net.UDPConn
	oob  [128]byte

	mu sync.Mutex // of Connect
}

// Listen opens a listener at a local address. No other process gets the local port.
func Listen(local netip.AddrPort) (*Listener, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, err
	}
	l := &Listener{conn: c}
	// The socket of an unspecified IPv6 address gets packets of both families. IPv4 then needs
	// its own option, which a socket of the other family may refuse.
	err = l.control(func(fd int) error {
		six := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		four := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		if six != nil && four != nil {
			return os.NewSyscallError("setsockopt", four)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return l, nil
}

func (l *Listener) control(f func(fd int) error) error {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// Addr returns the local address.
func (l *Listener) Addr() netip.AddrPort { return l.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Receive waits for a packet. to is the local address that it was sent to, which may be invalid
// if the system does not tell.
func (l *Listener) Receive(b []byte) (n int, from netip.AddrPort, to netip.Addr, err error) {
	n, on, _, from, err := l.conn.ReadMsgUDPAddrPort(b, l.oob[:])
	if err != nil {
		return 0, from, to, err
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	return n, from, destination(l.oob[:on]), nil
}

// destination reads the address that a packet was sent to out of control messages.
func destination(oob []byte) (a netip.Addr) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return a
	}
	for i := range list {
		m := &list[i]
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(m.Data[8:])) // ipi_addr
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			a = netip.AddrFrom16([16]byte(m.Data)).Unmap()
		}
	}
	return a
}

// Send sends a packet to a peer from a local address that Receive has returned. It loses packets
// for which there is no room.
func (l *Listener) Send(b []byte, from netip.Addr, to netip.AddrPort) {
	_, _, _ = l.conn.WriteMsgUDPAddrPort(b, l.source(from), to)
}

// source is the control message for a local address. The socket's family decides its form: one of
// both families has IPv4 addresses in their IPv6 form.
func (l *Listener) source(a netip.Addr) []byte {
	switch {
	case !a.IsValid():
		return nil
	case l.Addr().Addr().Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	default:
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
	}
}

// Connect opens the socket of a peer, with a local address that Receive has returned. Packets of
// other peers that arrived while it was being opened may be in it.
func (l *Listener) Connect(local netip.Addr, peer netip.AddrPort) (*Sockets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.share(1); err != nil {
		return nil, err
	}
	defer func() { _ = l.share(0) }() // others must not share the address
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	s := &Sockets{epoll: epoll}
	at := netip.AddrPortFrom(local, l.Addr().Port())
	if err := s.open(at, peer, true); err != nil {
		s.Close()
		return nil, fmt.Errorf("UDP from %v to %v: %w", at, peer, err)
	}
	return s, nil
}

func (l *Listener) share(on int) error {
	return l.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, on))
	})
}

// Close closes the listener, which ends Receive. Sockets that Connect has opened stay.
func (l *Listener) Close() error { return l.conn.Close() }
