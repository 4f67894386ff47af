//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// OpenFlow gives the flow to a peer. Flow addresses have no zone, as on the
// wire; a link-local peer is one of the link's interface.
func (l *Link) OpenFlow(dst netip.AddrPort, label uint32) (*link.Flow, error) {
	if !l.enter() {
		return nil, link.ErrClosed
	}
	defer l.leave()
	dst, err := checkPeer(l.local, dst)
	if err != nil {
		return nil, err
	}
	return l.flows.open(l, dst, label), nil
}

// CloseFlow gives up one use of a flow. It follows OpenFlow's rule of one
// goroutine at a time.
func (l *Link) CloseFlow(f *link.Flow) {
	if !l.enter() {
		return
	}
	defer l.leave()
	if e := l.flows.close(f); e != nil {
		_ = unix.Close(e.fd)
	}
}

func (l *Link) receiver() (*endpoint, netip.AddrPort) { return &l.rx, l.local }

func (l *Link) segments() int { return l.out.segments }

// dial makes a flow's socket.
func (l *Link) dial(dst netip.AddrPort, port uint16) (*endpoint, netip.AddrPort, error) {
	e, err := newEndpoint(l.local, l.cfg)
	if err != nil {
		return nil, dst, err
	}
	src, err := l.prepareFlow(&e, dst, port)
	if err != nil {
		_ = unix.Close(e.fd)
		return nil, dst, err
	}
	return &e, src, nil
}

func (l *Link) prepareFlow(e *endpoint, dst netip.AddrPort, port uint16) (netip.AddrPort, error) {
	dropAll(e.fd)
	l.prepareMulticast(e.fd)
	if err := l.bindFlow(e.fd, port); err != nil {
		return dst, err
	}
	src, err := localOf(e.fd, l.local)
	if err != nil {
		return dst, err
	}
	// What ICMP reports comes back as the error of a later send.
	if l.local.Addr().Is4() {
		return src, unix.SetsockoptInt(e.fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	}
	if err := unix.SetsockoptInt(e.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1); err != nil {
		return dst, err
	}
	// IPv6 has no identification that connecting would make random. A peer
	// without a route yet is not refused here but when something is sent.
	e.connected = unix.Connect(e.fd, sockaddr(dst, l.zone)) == nil
	return src, nil
}

// bindFlow binds to the wanted source port, to another one where it is taken,
// at last to any.
func (l *Link) bindFlow(fd int, port uint16) error {
	for i := range portTries {
		err := bind(fd, netip.AddrPortFrom(l.local.Addr(), portAfter(port, i)), l.zone)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	if err := bind(fd, netip.AddrPortFrom(l.local.Addr(), 0), l.zone); err != nil {
		return fmt.Errorf("no source port: %w", err)
	}
	return nil
}

// dropAll makes the kernel drop what is sent to a flow's socket: peers send to
// the receiving one, and nobody would read this one. ICMP errors still come.
func dropAll(fd int) {
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none[0]})
}
