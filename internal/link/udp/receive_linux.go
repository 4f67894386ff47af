//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A receiver holds the memory that Receive needs, so that it does not allocate.
type receiver struct {
	data    [maxReceived]byte
	control [controlLen]byte
	name    unix.RawSockaddrInet6
	iov     unix.Iovec
	head    unix.Msghdr
	local   netip.AddrPort // in the form that packets have
	turn    uint8
	single  singleMode
	multi   multiMode
}

// controlLen is room for the control messages of a packet.
const controlLen = 128

// fields are what the control messages of a packet or batch say.
type fields struct {
	segment   int // length of the packets that the kernel joined, 0 if it joined none
	tos, hops uint8
}

func (r *receiver) init(local netip.AddrPort) {
	r.local = onWire(local)
	r.iov.Base = &r.data[0]
	r.iov.SetLen(len(r.data))
	r.head.Name = (*byte)(unsafe.Pointer(&r.name))
	r.head.Iov = &r.iov
	r.head.SetIovlen(1)
	r.head.Control = &r.control[0]
}

// groupTurns is the number of calls of which one reads the groups' sockets first, so that
// steady unicast traffic cannot starve them.
const groupTurns = 16

// Receive implements link.Packets. Addresses have no zone: they are on the link's interface.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if !l.life.Enter() {
		return false, link.ErrClosed
	}
	if l.quiet.Load() != 0 {
		l.trim(time.Duration(l.quiet.Swap(0)))
	}
	ok := l.in.multi.waits() && l.in.deliver(rx)
	var err unix.Errno
	switch {
	case ok:
	case l.group.count.Load() == 0:
		ok, err = l.in.receive(l.rx.fd, rx)
	default:
		ok, err = l.receiveAny(rx)
	}
	if ok {
		l.buffer.received(l.rx.fd)
	}
	if waits := l.in.multi.waits(); waits != l.left.Load() {
		l.left.Store(waits)
		if waits {
			l.Wake() // the socket does not end a sleep that has begun
		}
	}
	l.life.Leave()
	if err != 0 {
		return false, err
	}
	if ok && l.cfg.Key != (Key{}) && rx.Src == rx.Dst {
		l.takeOver(rx)
	}
	return ok, nil
}

// receiveAny reads the link's own socket first, and at intervals the groups'.
func (l *Link) receiveAny(rx *link.Rx) (ok bool, err unix.Errno) {
	l.in.turn++
	if l.in.turn%groupTurns == 0 {
		if ok, err = l.group.receive(&l.in, rx); ok || err != 0 {
			return ok, err
		}
		return l.in.receive(l.rx.fd, rx)
	}
	if ok, err = l.in.receive(l.rx.fd, rx); ok || err != 0 {
		return ok, err
	}
	return l.group.receive(&l.in, rx)
}

// from receives one batch from a socket.
func (r *receiver) from(fd int, rx *link.Rx) (bool, unix.Errno) {
	for range 8 {
		r.head.Namelen = unix.SizeofSockaddrInet6
		r.head.SetControllen(len(r.control))
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.head)), unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return false, 0
		case err == unix.EINTR:
			continue
		case err != 0:
			return false, err
		case n == 0 || r.head.Flags&unix.MSG_TRUNC != 0:
			continue // an empty datagram, or one longer than any UDP datagram
		}
		var f fields
		f.read(r.control[:r.head.Controllen])
		r.fill(rx, r.data[:n:n], &r.name, &f)
		return true, 0
	}
	return false, 0
}

// fill fills rx with a packet or batch.
func (r *receiver) fill(rx *link.Rx, data []byte, name *unix.RawSockaddrInet6, f *fields) {
	rx.Data, rx.Size = data, len(data)
	if f.segment > 0 && f.segment < rx.Size {
		rx.Size = f.segment
	}
	rx.Dst = r.local
	rx.TOS, rx.HopLimit, rx.HandedOver = f.tos, f.hops, false
	rx.Src = source(name)
}

func source(name *unix.RawSockaddrInet6) netip.AddrPort {
	if name.Family == unix.AF_INET {
		s := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), swap(s.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), swap(name.Port))
}

// read reads control messages.
func (f *fields) read(control []byte) {
	*f = fields{}
	for at := 0; at+unix.SizeofCmsghdr <= len(control); {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[at]))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || at+length > len(control) {
			return
		}
		data := control[at+unix.CmsgLen(0) : at+length]
		v := 0
		switch {
		case len(data) >= 4:
			v = int(int32(binary.NativeEndian.Uint32(data)))
		case len(data) >= 1:
			v = int(data[0]) // IP_TOS is a byte
		}
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO:
			f.segment = max(v, 0)
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			f.tos = uint8(v)
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			f.hops = uint8(v)
		}
		at += unix.CmsgSpace(length - unix.CmsgLen(0))
	}
}
