//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keptFlows is the number of flows without users that are kept, because making a socket
	// takes longer than a short connection's use of it.
	keptFlows = 16

	// keptTime is how long they are kept while nothing is received.
	keptTime = time.Second
)

// trim closes the sockets of flows without users.
func (l *Link) trim() {
	l.stale.Store(false)
	for _, e := range l.flows.trim() {
		e.close()
	}
}

func (l *Link) receiver() (*endpoint, netip.AddrPort) { return &l.rx, l.local }

func (l *Link) segments() int { return l.out.segments }

// again prepares a flow's socket for new users: errors about packets of former users must not
// fail the next send.
func (l *Link) again(e *endpoint) {
	_, _ = unix.GetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	l.readErrors(e.fd)
}

// dial makes a flow's socket.
func (l *Link) dial(dst netip.AddrPort, port uint16) (*endpoint, netip.AddrPort, error) {
	e, err := newEndpoint(l.local, l.cfg)
	if err != nil {
		return nil, dst, err
	}
	src, err := l.prepareFlow(&e, dst, port)
	if err != nil {
		e.close()
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
	// IP_RECVERR puts ICMP errors into the socket's error queue. The next send returns the
	// last one unless they are read from there first.
	if l.local.Addr().Is4() {
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
	e.connected = unix.Connect(e.fd, sockaddr(dst, l.zone)) == nil
	return src, nil
}

// bindFlow binds to the wanted source port, then to others, and finally to any free port.
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

// dropAll makes the kernel drop datagrams to a flow's socket, which is never read: peers send
// to the receiving socket. ICMP errors still arrive.
func dropAll(fd int) {
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none[0]})
}
