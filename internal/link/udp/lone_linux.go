//go:build linux && !softrdma_portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// loneAfter is behind how many packets that came alone more such are
	// expected.
	loneAfter = 64

	// loneLook is of how many lone packets one is received with its header
	// fields: enough to learn that a path marks them.
	loneLook = 16

	// loneBurst is how many packets may come one right after the other and still
	// be lone ones; more come sooner together.
	loneBurst = 4

	// loneSize is longer than any lone packet that is waited for; what is longer
	// does not notice what receiving costs.
	loneSize = 2048

	congested = 3 // RFC 3168, 5
)

// A lone is how a socket receives packets that come one at a time, as those of
// a ping-pong do: by recvfrom, which takes an eighth of a microsecond less than
// recvmsg where it finds nothing, and a quarter where it finds a packet. It
// tells neither how large the packets of a coalesced batch are nor the fields
// of the IP header: so nothing is coalesced meanwhile, and only who sets
// link.Rx.Sparse gets it.
type lone struct {
	on    bool // lone packets are expected, and the system coalesces none
	run   int  // packets received so, or that came alone before
	burst int  // packets since the socket was empty
}

// receive is from, and quicker for packets that come alone.
func (r *receiver) receive(fd int, rx *link.Rx) (ok bool, err unix.Errno) {
	if r.lone.on && !rx.Sparse {
		r.coalesce(fd)
	}
	if r.lone.on && r.lone.run%loneLook != 0 {
		ok, err = r.bare(fd, rx)
	} else {
		ok, err = r.from(fd, rx)
	}
	r.lone.count(ok, rx)
	switch {
	case r.lone.on && r.lone.run == 0:
		r.coalesce(fd)
	case !r.lone.on && r.lone.run >= loneAfter && rx.Sparse && !ok && err == 0:
		r.part(fd)
	}
	return ok, err
}

// part has the system coalesce nothing more, if it ever did. The socket was
// empty; what came meanwhile may be coalesced, and of what size is only told
// while that is on. A batch that another processor is just about to put there
// comes as one packet, and is lost as in a network.
func (r *receiver) part(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 0) // as when the link was opened
	if _, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&r.data)), 0, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0); err != unix.EAGAIN {
		r.coalesce(fd)
		return
	}
	r.lone.on = true
}

// coalesce has the system coalesce packets, as when the link was opened.
func (r *receiver) coalesce(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	r.lone = lone{}
}

// count counts a batch, or that there was none. It sets run to 0 where packets
// do not come alone, or have a mark that is to be seen of all.
func (l *lone) count(ok bool, rx *link.Rx) {
	if !ok {
		l.burst = 0
		return
	}
	l.run++
	l.burst++
	most := 1
	if l.on {
		most = loneBurst
	}
	if l.burst > most || len(rx.Data) > min(rx.Size, loneSize) || rx.TOS&congested == congested {
		l.run = 0
	}
}

// bare receives one packet, without the fields of its IP header.
func (r *receiver) bare(fd int, rx *link.Rx) (bool, unix.Errno) {
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
		r.fill(rx, int(n))
		return true, 0
	}
	return false, 0
}
