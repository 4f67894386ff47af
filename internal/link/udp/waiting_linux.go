//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiting describes the unreceived packets in the sockets at an address, in bytes of memory.
// That is more than the bytes of the packets.
type waiting struct {
	sockets int
	largest int    // of one socket
	total   int    // of all
	drops   uint64 // packets that did not fit, since the sockets were opened
	cookie  uint64 // of the last socket
}

// A diagnosis asks the kernel about sockets by sock_diag(7), which needs no privilege.
type diagnosis struct {
	fd  int // -1 before the first use
	buf [16 << 10]byte
}

// Lengths and offsets in messages of linux/inet_diag.h.
const (
	diagRequestLen = unix.SizeofNlMsghdr + 56
	diagAnswerLen  = 72 // struct inet_diag_msg
	diagLocalPort  = 4  // in the answer; the remote port, local address and remote address follow
	diagLocalAddr  = 8
	diagCookie     = 44
	diagMemory     = 7 // INET_DIAG_SKMEMINFO

	diagMemoryWaits = 0 // SK_MEMINFO_RMEM_ALLOC
	diagMemoryDrops = 8 // SK_MEMINFO_DROPS
)

// openDiagnosis returns a diagnosis of the network namespace of socket fd, or nil if the
// system does not support it.
func openDiagnosis(fd int) *diagnosis {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil
	}
	here, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	there, err2 := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil || err2 != nil || here != there {
		_ = unix.Close(s)
		return nil
	}
	return &diagnosis{fd: s}
}

func (d *diagnosis) close() {
	if d != nil {
		_ = unix.Close(d.fd)
	}
}

// ask returns what is queued in the UDP sockets that are bound to an address, and false if the
// system does not report it or there is no socket. A socket that is bound to all addresses
// does not count: it may be the kernel's own, which passes packets on at once and queues them
// elsewhere.
//
// A dump of all UDP sockets takes some 25 µs, and longer with much memory, because its tables
// grow with it. The kernel finds the one socket of packets between two addresses at once. So
// sole remembers the cookie of a socket that was the only one at the address, or 0.
func (d *diagnosis) ask(from, to netip.AddrPort, sole *uint64) (w waiting, ok bool) {
	if *sole != 0 && d.send(from, to, *sole) && d.receive(&w, to) {
		return w, true
	}
	*sole, w = 0, waiting{}
	if !d.send(from, to, 0) || !d.receive(&w, to) {
		return w, false
	}
	if w.sockets == 1 {
		*sole = w.cookie
	}
	return w, true
}

// send requests the socket with a cookie, or for cookie 0 a dump of the sockets with a local
// port.
func (d *diagnosis) send(from, to netip.AddrPort, cookie uint64) bool {
	b := d.buf[:diagRequestLen]
	clear(b)
	binary.NativeEndian.PutUint32(b, diagRequestLen)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	r := b[unix.SizeofNlMsghdr:]
	r[0], r[1], r[2] = unix.AF_INET6, unix.IPPROTO_UDP, 1<<(diagMemory-1)
	if to.Addr().Is4() {
		r[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // in any state
	id := r[8:]
	if cookie == 0 {
		binary.BigEndian.PutUint16(id, to.Port())
	} else { // found as for a packet that arrives
		binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
		binary.BigEndian.PutUint16(id, from.Port())
		binary.BigEndian.PutUint16(id[2:], to.Port())
		copy(id[4:20], from.Addr().AsSlice())
		copy(id[20:36], to.Addr().AsSlice())
		binary.NativeEndian.PutUint64(id[40:], cookie)
	}
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(d.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		if err != unix.EINTR {
			return err == 0 && int(n) == len(b)
		}
	}
}

// receive reads the answer. It reports whether there is a socket with the address.
func (d *diagnosis) receive(w *waiting, at netip.AddrPort) bool {
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(d.fd), uintptr(unsafe.Pointer(&d.buf)), uintptr(len(d.buf)),
			unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
		if err == unix.EINTR {
			continue
		}
		if err != 0 || n == 0 || n > uintptr(len(d.buf)) {
			return false
		}
		if end, ok := w.add(d.buf[:n], at); end {
			return ok && w.sockets > 0
		}
	}
}

// add processes the messages in b. It reports whether they are the last, and whether they are
// valid.
func (w *waiting) add(b []byte, at netip.AddrPort) (end, ok bool) {
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return true, false
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, true
		case unix.SOCK_DIAG_BY_FAMILY:
			ok := w.socket(b[unix.SizeofNlMsghdr:n], at)
			if !ok || binary.NativeEndian.Uint16(b[6:])&unix.NLM_F_MULTI == 0 {
				return true, ok
			}
		default:
			return true, false // NLMSG_ERROR
		}
		b = b[min(len(b), aligned(n)):]
	}
	return false, true
}

// socket adds one socket, if it is bound to the address.
func (w *waiting) socket(b []byte, at netip.AddrPort) bool {
	if len(b) < diagAnswerLen {
		return false
	}
	if binary.BigEndian.Uint16(b[diagLocalPort:]) != at.Port() || !sameAddr(b[diagLocalAddr:diagLocalAddr+16], at.Addr()) {
		return true
	}
	w.cookie = binary.NativeEndian.Uint64(b[diagCookie:])
	for b = b[diagAnswerLen:]; len(b) >= unix.SizeofNlAttr; {
		n, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if n < unix.SizeofNlAttr || n > len(b) {
			return false
		}
		if v := b[unix.SizeofNlAttr:n]; kind == diagMemory && len(v) >= 4*(diagMemoryDrops+1) {
			bytes := int(binary.NativeEndian.Uint32(v[4*diagMemoryWaits:]))
			w.sockets, w.largest, w.total = w.sockets+1, max(w.largest, bytes), w.total+bytes
			w.drops += uint64(binary.NativeEndian.Uint32(v[4*diagMemoryDrops:]))
			return true
		}
		b = b[min(len(b), aligned(n)):]
	}
	return false // the kernel does not report it
}

func sameAddr(b []byte, a netip.Addr) bool {
	if a.Is4() {
		return [4]byte(b) == a.As4()
	}
	return [16]byte(b) == a.As16()
}

// aligned rounds up to the alignment of messages and attributes.
func aligned(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }
