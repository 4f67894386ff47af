//go:build linux && !softrdma_portable

package udp

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/wake"
)

const (
	// maxPieces is UIO_MAXIOV, the longest gather list that the kernel accepts.
	maxPieces = 1024

	// oldSegments is how many segments kernels before 6.9 accept.
	oldSegments = 64
)

// A sender holds the memory that Send needs, so that it does not allocate.
type sender struct {
	host     *host
	life     *wake.Lifetime
	reports  *reports
	segments int // of new flows
	iov      [maxPieces + link.MaxPackets]unix.Iovec
	msgs     [link.MaxPackets]unix.Mmsghdr
	control  segmentControl
	dropped  bool // the interface's queue was full
	bounce   []byte
	trailer  [trailerLen]byte
	handed   []byte
	splicer  splicer
}

// A segmentControl is the control message UDP_SEGMENT, aligned as cmsghdr.
type segmentControl struct {
	head unix.Cmsghdr
	size uint16
	_    [6]byte
}

// init prepares a sender of the link whose receiving socket is fd.
func (s *sender) init(h *host, life *wake.Lifetime, r *reports, fd int) {
	s.host, s.life, s.reports = h, life, r
	s.splicer.size = 2 * h.cfg.ReceiveBuffer // the kernel grants twice the requested size
	s.segments = 1
	if !h.cfg.NoSegmentation && canSegment(fd) {
		s.segments = link.MaxPackets
	}
	s.control.head.Level, s.control.head.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	s.control.head.SetLen(unix.CmsgLen(2))
}

// canSegment reports whether the kernel knows UDP_SEGMENT. Other kernels ignore the control
// message, and would send a batch as one datagram.
func canSegment(fd int) bool {
	if unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1400) != nil {
		return false
	}
	n, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil && err == nil && n == 1400
}

// Send transmits a batch, as one datagram that the system segments if it can.
func (l *Link) Send(tx *link.Tx) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	f := l.flows.find(tx.Flow)
	if f == nil {
		return errNoFlow(tx.Flow)
	}
	return l.out.send(f, tx)
}

// named returns the system's error, with both lengths if a packet is too long.
func (h *host) named(f *flow, tx *link.Tx, err unix.Errno) error {
	if err == unix.EMSGSIZE {
		return h.tooLong(f, tx, err)
	}
	return err
}

func (s *sender) send(f *flow, tx *link.Tx) error {
	if err := checkBatch(tx); err != nil {
		return err
	}
	if int(tx.TOS) != f.end.tos || int(tx.HopLimit) != f.end.hops {
		if err := s.host.setHeader(f.end, tx); err != nil {
			return f.sendError(tx, err, false)
		}
	}
	pieces := tx.Pieces
	if s.splicer.splices(f, tx) && s.splicer.send(f, tx, pieces) {
		if f.Counts {
			f.First++
		}
		return nil
	}
	if f.end.segment != 0 && min(tx.Size, tx.Bytes) > f.end.segment && !f.end.setSegment(0) {
		return f.sendError(tx, unix.EINVAL, false)
	}
	if len(pieces) > maxPieces {
		pieces = s.join(pieces)
	}
	var earlier, err unix.Errno
	segments, n := f.Segments, 0
	s.dropped = false
	for {
		var ok bool
		if n, ok = s.cut(pieces, min(tx.Size, tx.Bytes)*f.Segments); !ok {
			clear(s.iov[:])
			return errPieces(tx)
		}
		err = s.transmit(f, tx, n, &earlier)
		if err == 0 || !f.fallBack(tx, err) {
			break
		}
	}
	runtime.KeepAlive(pieces)
	if f.Counts {
		if f.First += uint16(n); err != 0 || earlier != 0 || s.dropped {
			f.miscounted()
		}
	}
	switch {
	case err != 0:
		f.Segments = segments // a smaller number did not help
		return f.sendError(tx, s.host.named(f, tx, err), false)
	case earlier != 0:
		return f.sendError(tx, s.host.named(f, tx, earlier), true)
	}
	return nil
}

// fallBack lowers the flow's segments after an error of a system without segmentation, or with
// shorter batches: a device without checksum offload (EIO), IPsec (EIO), a kernel that allows
// 64 (EINVAL). It reports whether to try again.
func (f *flow) fallBack(tx *link.Tx, err unix.Errno) bool {
	if f.Segments == 1 || tx.Bytes <= tx.Size {
		return false
	}
	switch err {
	case unix.EINVAL:
		if f.Segments > oldSegments && tx.Bytes > oldSegments*tx.Size {
			f.Segments = oldSegments
			return true
		}
	case unix.EIO, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
	default:
		return false
	}
	f.Segments = 1
	return true
}

// setHeader sets type of service and hop limit of the next packets. They rarely change, so
// a cached socket option is cheaper than two control messages with each batch.
func (h *host) setHeader(e *endpoint, tx *link.Tx) error {
	hops := int(tx.HopLimit)
	if hops == 0 {
		hops = -1 // the system's default
	}
	level, tos, unicast, multicast := unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_UNICAST_HOPS, unix.IPV6_MULTICAST_HOPS
	if h.local.Addr().Is4() {
		level, tos, unicast, multicast = unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL, unix.IP_MULTICAST_TTL
	}
	if e.tos != int(tx.TOS) {
		if err := unix.SetsockoptInt(e.fd, level, tos, int(tx.TOS)); err != nil {
			return err
		}
		e.tos = int(tx.TOS)
	}
	if e.hops != int(tx.HopLimit) {
		if err := unix.SetsockoptInt(e.fd, level, unicast, hops); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(e.fd, level, multicast, hops); err != nil {
			return err
		}
		e.hops = int(tx.HopLimit)
	}
	return nil
}

// join copies a gather list that is too long for the kernel into one buffer.
func (s *sender) join(pieces [][]byte) [][]byte {
	s.bounce = s.bounce[:0]
	for _, p := range pieces {
		s.bounce = append(s.bounce, p...)
	}
	return [][]byte{s.bounce}
}

// cut divides pieces into messages of n bytes each; the last may be shorter. It returns the
// number of messages, and false if there are too many.
func (s *sender) cut(pieces [][]byte, n int) (int, bool) {
	iov, msg, first, room := 0, 0, 0, n
	for _, p := range pieces {
		for len(p) > 0 {
			if room == 0 {
				if msg+1 == len(s.msgs) {
					return 0, false
				}
				s.endMessage(msg, first, iov)
				msg, first, room = msg+1, iov, n
			}
			if iov == len(s.iov) {
				return 0, false
			}
			k := min(len(p), room)
			s.iov[iov].Base = &p[0]
			s.iov[iov].SetLen(k)
			iov++
			p, room = p[k:], room-k
		}
	}
	s.endMessage(msg, first, iov)
	return msg + 1, true
}

func (s *sender) endMessage(msg, from, to int) {
	h := &s.msgs[msg].Hdr
	h.Iov = &s.iov[from]
	h.SetIovlen(to - from)
}

// transmit sends the n messages of cut. It clears the pointers to the caller's memory, which
// the caller may unmap.
func (s *sender) transmit(f *flow, tx *link.Tx, n int, earlier *unix.Errno) unix.Errno {
	s.control.size = uint16(min(tx.Size, 1<<16-1))
	for i := range s.msgs[:n] {
		h := &s.msgs[i].Hdr
		h.Name, h.Namelen = nil, 0
		if !f.end.connected {
			h.Name, h.Namelen = (*byte)(unsafe.Pointer(&f.to.name)), f.to.len
		}
		h.Control = nil
		h.SetControllen(0)
		if f.Segments > 1 && tx.Bytes > tx.Size {
			h.Control = (*byte)(unsafe.Pointer(&s.control))
			h.SetControllen(int(unsafe.Sizeof(s.control)))
		}
	}
	err := s.push(f.end, s.msgs[:n], earlier)
	last := &s.msgs[n-1].Hdr
	used := int((uintptr(unsafe.Pointer(last.Iov))-uintptr(unsafe.Pointer(&s.iov)))/unsafe.Sizeof(s.iov[0])) + int(last.Iovlen)
	clear(s.iov[:used])
	return err
}

// push passes messages to the kernel. It waits a limited time for room, and retries once after
// an error, which may be about an earlier batch.
func (s *sender) push(e *endpoint, msgs []unix.Mmsghdr, earlier *unix.Errno) unix.Errno {
	var deadline time.Time
	var again bool
	for len(msgs) > 0 {
		n, err := sendMessages(e.fd, msgs)
		switch err {
		case 0:
			msgs = msgs[n:]
			again = false
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			if deadline.IsZero() {
				deadline = time.Now().Add(sendTimeout)
			}
			if !s.waitRoom(e.fd, err, deadline) {
				return err
			}
		default:
			s.reports.read(e.fd)
			if again {
				*earlier = 0
				return err
			}
			again, *earlier = true, err
		}
	}
	return 0
}

// sendMessages returns how many messages were sent, 0 with an error. The calls do not block,
// so Go's scheduler need not know of them.
func sendMessages(fd int, msgs []unix.Mmsghdr) (int, unix.Errno) {
	if len(msgs) == 1 {
		h := &msgs[0].Hdr
		if h.Iovlen == 1 && h.Control == nil { // 0.1 µs less than a message
			_, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(h.Iov.Base)), uintptr(h.Iov.Len),
				unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
			return 1, err
		}
		_, _, err := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0].Hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return 1, err
	}
	n, _, err := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0])), uintptr(len(msgs)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), err
}

// waitRoom waits until a full socket has room. ENOBUFS means that the interface's queue is
// full: then it waits a moment. It reports whether to try again.
func (s *sender) waitRoom(fd int, err unix.Errno, deadline time.Time) bool {
	s.dropped = s.dropped || err == unix.ENOBUFS
	left := time.Until(deadline)
	if left <= 0 || s.life.Closed() {
		return false
	}
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if err == unix.ENOBUFS {
		p, left = nil, min(left, 100*time.Microsecond)
	}
	ts := unix.NsecToTimespec(left.Nanoseconds())
	if _, err := unix.Ppoll(p, &ts, nil); err == nil && len(p) == 1 && p[0].Revents&unix.POLLERR != 0 {
		s.reports.read(fd)
	}
	return true
}
