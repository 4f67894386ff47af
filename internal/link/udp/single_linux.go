//go:build linux && !softrdma_portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// singleAfter is the number of consecutive single packets after which the socket
	// enters single-packet mode. A ping-pong must get there between two acknowledges,
	// which leave in one batch with a message: there is one for each 14 messages if the
	// peer has posted 32 receives.
	singleAfter = 8

	// singleSample is the number of packets of which single-packet mode receives one with
	// its header fields, which is enough to learn that a path marks packets.
	singleSample = 16

	// singleBurst is the number of packets that may follow each other without a pause in
	// single-packet mode. A longer burst is faster to receive coalesced.
	singleBurst = 4

	// pairWeight is the weight of a burst against single packets, and pairLimit the sum that
	// ends single-packet mode. An answer that always leaves in one batch with an acknowledge
	// should arrive with it: one poll then finds both.
	pairWeight = 6
	pairLimit  = 18

	// singleSize is the longest packet of single-packet mode. For larger packets the cost
	// of the system call does not matter.
	singleSize = 2048

	congested = 3 // RFC 3168, 5
)

// A singleMode receives packets that come one at a time, as those of a ping-pong do, by
// recvfrom. That takes 0.12 µs less than recvmsg if there is no packet, and 0.25 µs less
// if there is one. Recvfrom returns neither the size of coalesced packets nor fields of
// the IP header: so coalescing is off in this mode, and only callers that set
// link.Rx.Sparse get it.
type singleMode struct {
	on    bool // the kernel coalesces nothing
	run   int  // single packets received in a row
	burst int  // packets received since the socket was empty
	pairs int  // bursts, weighed against single packets
}

// receive reads the next batch. For single packets it takes a faster path.
func (r *receiver) receive(fd int, rx *link.Rx) (ok bool, err unix.Errno) {
	if r.single.on && !rx.Sparse {
		r.leaveSingle(fd)
	}
	switch {
	case r.single.on && r.single.run%singleSample != 0:
		ok, err = r.receiveSingle(fd, rx)
	case !r.single.on && r.multi.due():
		ok, err = r.fromMulti(fd, rx)
	default:
		ok, err = r.from(fd, rx)
		r.multi.count(ok, rx)
	}
	r.single.count(ok, rx)
	switch {
	case r.single.on && r.single.run == 0:
		r.leaveSingle(fd)
	case !r.single.on && r.single.run >= singleAfter && rx.Sparse && !ok && err == 0:
		r.enterSingle(fd)
	}
	return ok, err
}

// enterSingle turns coalescing off. The socket was empty, but packets that arrived
// meanwhile may be coalesced, and the kernel returns their size only while coalescing is
// on. If there are any, enterSingle turns it on again. A batch that another processor
// queues between these two steps arrives as one long packet and is lost, as in a network.
func (r *receiver) enterSingle(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 0) // as when the link was opened
	if _, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&r.data)), 0, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0); err != unix.EAGAIN {
		r.leaveSingle(fd)
		return
	}
	r.single.on = true
}

// leaveSingle turns coalescing on, as when the link was opened.
func (r *receiver) leaveSingle(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	r.single = singleMode{}
}

// count counts a batch, or that there was none. It clears run if packets arrive together or
// have a congestion mark, which must be read from each packet.
func (m *singleMode) count(ok bool, rx *link.Rx) {
	if !ok {
		m.burst = 0
		return
	}
	m.run++
	m.burst++
	limit := 1
	if m.on {
		limit = singleBurst
		switch m.burst {
		case 1:
			m.pairs = max(m.pairs-1, 0)
		case 2:
			m.pairs += pairWeight
		}
		if m.pairs >= pairLimit {
			limit = 1
		}
	}
	if m.burst > limit || len(rx.Data) > min(rx.Size, singleSize) || rx.TOS&congested == congested {
		m.run = 0
	}
}

// receiveSingle receives one packet, without fields of its IP header.
func (r *receiver) receiveSingle(fd int, rx *link.Rx) (bool, unix.Errno) {
	for range 8 {
		size := uint32(unix.SizeofSockaddrInet6)
		n, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&r.data)), uintptr(len(r.data)), unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&r.name)), uintptr(unsafe.Pointer(&size)))
		switch {
		case err == unix.EAGAIN:
			return false, 0
		case err == unix.EINTR:
			continue
		case err != 0:
			return false, err
		case n == 0:
			continue // an empty datagram
		}
		r.fill(rx, r.data[:n:n], &r.name, &fields{})
		return true, 0
	}
	return false, 0
}
