//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A connected socket sends 10 % faster than one that looks up its route each time. But Linux
// gives unfragmentable packets of a connected socket an identification that counts from a
// random number, where others have 0, and the ICRC covers it. The number can be learned: with
// a transmit timestamp, the kernel returns the sent datagram, headers included.

// headersLen is the length of the IPv4 and UDP headers without options.
const headersLen = 20 + 8

// identify connects a socket and learns its next identification by an empty datagram, which
// receivers ignore. It fails, and leaves the socket unconnected, if the kernel does not return
// datagrams (net.core.tstamp_allow_data), or not at once, as while the peer's link address is
// being resolved.
func identify(fd int, src, dst netip.AddrPort) (next uint16, ok bool) {
	if unix.Connect(fd, sockaddr(dst, 0)) != nil {
		return 0, false
	}
	if id, ok := sentIdentification(fd, src, dst); ok {
		return id + 1, true
	}
	disconnect(fd)
	return 0, false
}

// sentIdentification sends an empty datagram and returns its identification.
func sentIdentification(fd int, src, dst netip.AddrPort) (id uint16, ok bool) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, unix.SOF_TIMESTAMPING_TX_SCHED) != nil {
		return 0, false
	}
	var b, control [256]byte
	_, err := unix.SendmsgN(fd, nil, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	n := 0
	if err == nil {
		n, _, _, _, err = unix.Recvmsg(fd, b[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	}
	// On the loopback an absent peer's error arrives before the call returns. It must not be
	// taken for an answer to a later datagram.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0)
	_, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || n < headersLen {
		return 0, false
	}
	return identificationOf(b[n-headersLen:n], src, dst)
}

// identificationOf returns the identification in the headers of an empty datagram. It reports
// false if they are not from src to dst.
func identificationOf(h []byte, src, dst netip.AddrPort) (id uint16, ok bool) {
	s, d := src.Addr().As4(), dst.Addr().As4()
	udp := h[20:]
	return binary.BigEndian.Uint16(h[4:]), h[0] == 0x45 && h[9] == unix.IPPROTO_UDP && [4]byte(h[12:16]) == s && [4]byte(h[16:20]) == d &&
		binary.BigEndian.Uint16(udp) == src.Port() && binary.BigEndian.Uint16(udp[2:]) == dst.Port() && binary.BigEndian.Uint16(udp[4:]) == 8
}

// disconnect removes a socket's peer. Its identifications are then 0.
func disconnect(fd int) {
	var none unix.RawSockaddr // AF_UNSPEC
	_, _, _ = unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unix.SizeofSockaddrInet4)
}

func (e *endpoint) identification() (first uint16, counts bool) { return e.first, e.counts }

// miscounted stops the counting after an error, because it depends on the error whether the
// kernel had numbered the datagram.
func (f *flow) miscounted() {
	disconnect(f.end.fd)
	f.end.connected, f.Counts, f.First = false, false, 0
}
