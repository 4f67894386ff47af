//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// maxReports bounds the reports that wait for Reports; more are dropped, as the
	// network would do: routers limit the rate of ICMP.
	maxReports = 16

	// quoteLen is how many bytes of a packet a report keeps: enough for its headers
	// and for the fields that identify a management datagram.
	quoteLen = 128
)

// reports are the ICMP errors about packets of flows. An epoll instance knows which
// sockets have an entry in their error queue.
type reports struct {
	epoll  int
	events [maxReports]unix.EpollEvent
	some   atomic.Bool // the epoll instance has an event, or list an entry
	n      int
	list   [maxReports]link.Report
	quotes [maxReports][quoteLen]byte
	data   [quoteLen]byte
	name   unix.RawSockaddrInet6
	ctl    [256]byte
}

var _ link.Reporter = (*Link)(nil)

func (s *reports) init() (err error) {
	s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return os.NewSyscallError("epoll_create1", err)
}

func (s *reports) free() {
	if s.epoll >= 0 {
		_ = unix.Close(s.epoll)
	}
}

// watch adds a flow's socket without any event: epoll always reports errors. Closing
// the socket removes it.
func (s *reports) watch(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Fd: int32(fd)}))
}

// Reported reports whether the error queues may hold an ICMP error.
func (l *Link) Reported() bool { return l.reports.some.Load() }

// Look asks whether the network has answered something.
func (l *Link) Look() {
	if !l.enter() {
		return
	}
	defer l.leave()
	p := [1]unix.PollFd{{Fd: int32(l.reports.epoll), Events: unix.POLLIN}}
	if n, err := unix.Ppoll(p[:], &unix.Timespec{}, nil); err == nil && n > 0 {
		l.reports.some.Store(true)
	}
}

// Reports gives f what the network answered since the last call.
func (l *Link) Reports(f func(*link.Report)) {
	if !l.enter() {
		return
	}
	defer l.leave()
	s := &l.reports
	n, err := unix.EpollWait(s.epoll, s.events[:], 0)
	if err == nil {
		for i := range s.events[:n] {
			if fd := int(s.events[i].Fd); !l.readErrors(fd) {
				// An error without a report, which epoll would tell for ever.
				_, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			}
		}
	}
	s.some.Store(n == len(s.events)) // there may be more
	for i := range s.list[:s.n] {
		f(&s.list[i])
	}
	s.n = 0
}

// readErrors moves the error queue of a flow's socket into list, and reports whether
// it held anything.
func (l *Link) readErrors(fd int) (some bool) {
	s := &l.reports
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
			return some
		}
		some = true
		if e := s.extended(int(h.Controllen)); e != nil && s.n < maxReports {
			l.keep(fd, int(n), syscall.Errno(e.Errno))
		}
	}
	return some
}

// extended finds the control message that describes an ICMP error, nil for errors of
// the system itself, such as a packet over the MTU.
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

// keep adds a report of n quoted bytes to the list. The kernel has compared the
// addresses and ports of the quoted packet with the socket's; where that is not
// connected it tells the packet's destination.
func (l *Link) keep(fd, n int, errno syscall.Errno) {
	s := &l.reports
	src, err := localOf(fd, l.local)
	if err != nil {
		return
	}
	r, q := &s.list[s.n], &s.quotes[s.n]
	*r = link.Report{Src: onWire(src), Dst: s.destination(), Err: errno, Quoted: q[:copy(q[:], s.data[:min(n, len(s.data))])]}
	s.n++
	s.some.Store(true)
}

// destination is where the quoted packet went.
func (s *reports) destination() netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&s.name.Port))[:])
	if s.name.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(s.name.Addr).Unmap(), port)
}
