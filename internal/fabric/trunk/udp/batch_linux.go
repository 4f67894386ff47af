package udp

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits of packets that the kernel takes as one (UDP_SEGMENT).
const (
	mostSegments = 64
	mostBytes    = 65000
)

// An outbox is packets to one peer that the kernel gets by one call: all of one size, except that
// the last may be shorter.
type outbox struct {
	peer  int
	size  int // of the first
	count int
	data  []byte
	plain bool // the kernel takes packets one by one
}

// An inbox is packets that the kernel gave as one (UDP_GRO).
type inbox struct {
	buffer []byte
	left   []byte // of buffer, not yet received
	size   int    // of each packet but the last
}

// Send sends a packet to a peer, at the latest with the next Flush. It loses packets for which
// there is no room, as the network does.
func (s *Sockets) Send(peer int, b []byte) {
	o := &s.out
	if o.count > 0 && (o.peer != peer || len(b) > o.size || o.count == mostSegments || len(o.data)+len(b) > mostBytes) {
		s.Flush()
	}
	if o.count == 0 {
		o.peer, o.size = peer, len(b)
	}
	o.data = append(o.data, b...)
	o.count++
	if len(b) < o.size {
		s.Flush()
	}
}

// Flush sends the packets of Send that have not left.
func (s *Sockets) Flush() {
	o := &s.out
	fd := 0
	if o.count > 0 {
		fd = s.fds[o.peer]
	}
	if o.count > 1 && !o.plain {
		switch errno := sendSegments(fd, o.data, uint16(o.size)); errno {
		case 0, unix.EAGAIN, unix.ENOBUFS, unix.ECONNREFUSED: // sent or lost
			o.count, o.data = 0, o.data[:0]
			return
		}
		o.plain = true
	}
	for at := 0; at < len(o.data); at += o.size {
		_, _ = unix.Write(fd, o.data[at:min(at+o.size, len(o.data))])
	}
	o.count, o.data = 0, o.data[:0]
}

// A segmentControl is the control message UDP_SEGMENT.
type segmentControl struct {
	head unix.Cmsghdr
	size uint16
	_    [6]byte
}

// sendSegments sends b in packets of a size. The socket does not block.
func sendSegments(fd int, b []byte, size uint16) unix.Errno {
	c := segmentControl{size: size}
	c.head.Level, c.head.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	c.head.SetLen(unix.CmsgLen(2))
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	m := unix.Msghdr{Iov: &v, Control: (*byte)(unsafe.Pointer(&c))}
	m.SetIovlen(1)
	m.SetControllen(unix.CmsgSpace(2))
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), unix.MSG_NOSIGNAL)
	return errno
}

// Receive reads a packet from a peer into b, and reports whether there was one. It does not
// wait. An error, such as a refused port of the peer, counts as no packet.
func (s *Sockets) Receive(peer int, b []byte) (n int, ok bool) {
	in := &s.in[peer]
	if len(in.left) == 0 && !in.fill(s.fds[peer]) {
		return 0, false
	}
	n = min(in.size, len(in.left))
	packet := in.left[:n]
	in.left = in.left[n:]
	return copy(b, packet), true
}

// fill receives packets.
func (in *inbox) fill(fd int) bool {
	if in.buffer == nil {
		in.buffer = make([]byte, 1<<16)
	}
	var control [64]byte
	v := unix.Iovec{Base: &in.buffer[0]}
	v.SetLen(len(in.buffer))
	m := unix.Msghdr{Iov: &v, Control: &control[0]}
	m.SetIovlen(1)
	m.SetControllen(len(control))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 0)
	if errno != 0 {
		return false
	}
	in.left, in.size = in.buffer[:n], max(int(n), 1)
	if size := groSize(control[:min(int(m.Controllen), len(control))]); size > 0 {
		in.size = size
	}
	return true
}

// groSize returns the size of packets that came together, 0 for a packet that came alone.
func groSize(control []byte) int {
	const data = unix.SizeofCmsghdr
	for len(control) >= data+4 {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO {
			return int(binary.NativeEndian.Uint32(control[data:]))
		}
		n := unix.CmsgSpace(int(h.Len) - unix.CmsgLen(0))
		if n <= 0 || n > len(control) {
			break
		}
		control = control[n:]
	}
	return 0
}
