//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
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

// dropAll makes the kernel drop datagrams to a flow's socket, which is never read: peers send
// to the receiving socket. ICMP errors still arrive.
func dropAll(fd int) {
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none[0]})
}

// A destination is a peer's address in the form for sendmsg: a sockaddr_in or sockaddr_in6,
// both with family, port and address at fixed offsets.
type destination struct {
	name unix.RawSockaddrInet6
	len  uint32
}

// swap converts a port to or from network byte order.
func swap(port uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(b[0])<<8 | uint16(b[1])
}
