//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// maxReports limits the reports that wait for NextReport. Excess ones are dropped, as on
	// the network, where routers limit the rate of ICMP.
	maxReports = 16

	// quoteLen is how many bytes of a packet a report keeps: enough for its headers
	// and for the fields that identify a management datagram.
	quoteLen = 128
)

// reports holds the ICMP errors that were collected from the sockets of flows.
//
// No epoll instance watches these sockets. The kernel would call it for every datagram whose
// memory it frees, which made a round trip of small messages 5 % longer.
type reports struct {
	local  netip.AddrPort
	n      int // in list
	taken  int // of these, by NextReport
	list   [maxReports]link.Report
	quotes [maxReports][quoteLen]byte
	data   [quoteLen]byte
	name   unix.RawSockaddrInet6
	ctl    [256]byte
}

var _ link.Reporter = (*Link)(nil)

// Look reads the error queue of a flow's socket. That also clears the error that the
// socket's next send would return.
func (l *Link) Look(p *link.Flow) {
	if !l.life.Enter() {
		return
	}
	defer l.life.Leave()
	if f := l.flows.find(p); f != nil {
		l.reports.read(f.end.fd)
	}
}

// NextReport removes and returns the oldest report.
func (l *Link) NextReport() *link.Report {
	s := &l.reports
	if s.taken == s.n {
		s.taken, s.n = 0, 0
		return nil
	}
	s.taken++
	return &s.list[s.taken-1]
}

// read moves the error queue of a flow's socket into list, so that later sends do not fail. That of
// the receiving socket is empty, because it asks for no reports.
func (s *reports) read(fd int) {
	for range 64 {
		iov := unix.Iovec{Base: &s.data[0]}
		iov.SetLen(len(s.data))
		h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&s.name)), Namelen: unix.SizeofSockaddrInet6, Iov: &iov, Control: &s.ctl[0]}
		h.SetIovlen(1)
		h.SetControllen(len(s.ctl))
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != 0:
			return
		}
		if e := s.extended(int(h.Controllen)); e != nil && s.n < maxReports {
			s.keep(fd, int(n), errnoOf(e))
		}
	}
}

// extended finds the control message that describes an ICMP error. It returns nil for errors
// of the system itself, such as a packet over the MTU.
func (s *reports) extended(n int) *unix.SockExtendedErr {
	for at := 0; at+unix.SizeofCmsghdr <= n; {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&s.ctl[at]))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || at+length > n {
			return nil
		}
		v4, v6 := h.Level == unix.IPPROTO_IP && h.Type == unix.IP_RECVERR, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_RECVERR
		if (v4 || v6) && length >= unix.CmsgLen(int(unsafe.Sizeof(unix.SockExtendedErr{}))) {
			e := (*unix.SockExtendedErr)(unsafe.Pointer(&s.ctl[at+unix.CmsgLen(0)]))
			if e.Origin == unix.SO_EE_ORIGIN_ICMP || e.Origin == unix.SO_EE_ORIGIN_ICMP6 {
				return e
			}
			return nil
		}
		at += unix.CmsgSpace(length - unix.CmsgLen(0))
	}
	return nil
}

// errnoOf returns the error of an ICMP message. The kernel has one for each code, but takes a firewall's refusal over IPv4
// (RFC 1812 5.2.7.1) for a host that cannot be reached, and over IPv6 names it.
func errnoOf(e *unix.SockExtendedErr) syscall.Errno {
	const unreachable, network, host, communication = 3, 9, 10, 13
	if e.Origin == unix.SO_EE_ORIGIN_ICMP && e.Type == unreachable && (e.Code == network || e.Code == host || e.Code == communication) {
		return syscall.EACCES
	}
	return syscall.Errno(e.Errno)
}

// keep adds a report of n quoted bytes to the list. The kernel has compared the addresses and
// ports of the quoted packet with the socket's; for an unconnected socket it returns the
// packet's destination.
func (s *reports) keep(fd, n int, errno syscall.Errno) {
	src, err := localOf(fd, s.local)
	if err != nil {
		return
	}
	r, q := &s.list[s.n], &s.quotes[s.n]
	*r = link.Report{Src: onWire(src), Dst: s.destination(), Err: errno, Quoted: q[:copy(q[:], s.data[:min(n, len(s.data))])]}
	s.n++
}

// destination returns the destination of the quoted packet.
func (s *reports) destination() netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&s.name.Port))[:])
	if s.name.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(s.name.Addr).Unmap(), port)
}
