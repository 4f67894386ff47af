package loop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The loop over UDP shows the upper limit for user-space transports that send
// datagrams of this length. It has no CRC, no queue pairs and no retransmission, only a
// window to prevent loss.
const (
	batch    = 62000   // maximum number of bytes per system call
	window   = 1 << 20 // outstanding bytes
	ackEvery = 64 << 10
	bufSize  = 4 << 20 // requested size of the socket's buffers
	quiet    = time.Second
	sayEnd   = 1 // length of the datagram that ends the loop; all others are longer
)

func CheckUDP() error { return nil }

type udpEnd struct {
	c       *Config
	fd      int
	control [unix.SizeofCmsghdr + 8]byte
	iov     unix.Iovec
	hdr     unix.Msghdr
}

func newUDPEnd(c *Config) (end, error) {
	family := unix.AF_INET
	if c.Local.Is6() {
		family = unix.AF_INET6
	}
	kind := unix.SOCK_DGRAM | unix.SOCK_CLOEXEC
	if !c.Events {
		kind |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return nil, err
	}
	e := &udpEnd{c: c, fd: fd}
	// The server uses the control connection's port, the client the next one.
	local, peer := c.Port+1, c.Port
	if c.Server {
		local, peer = peer, local
	}
	for _, step := range []func() error{
		func() error { return unix.Bind(fd, sockaddr(c.Local.AsSlice(), local)) },
		func() error { return unix.Connect(fd, sockaddr(c.Peer.AsSlice(), peer)) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufSize) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bufSize) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1) },
		func() error {
			if !c.Events {
				return nil
			}
			return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(quiet / time.Second)})
		},
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("UDP socket: %w", err)
		}
	}
	return e, nil
}

func sockaddr(ip net.IP, port uint16) unix.Sockaddr {
	if v4 := ip.To4(); v4 != nil {
		return &unix.SockaddrInet4{Port: int(port), Addr: [4]byte(v4)}
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: [16]byte(ip)}
}

func (e *udpEnd) close() { unix.Close(e.fd) }

// send sends b as datagrams of size bytes.
func (e *udpEnd) send(b []byte, size int) error {
	e.iov.Base = &b[0]
	e.iov.SetLen(len(b))
	e.hdr = unix.Msghdr{Iov: &e.iov, Iovlen: 1}
	if size < len(b) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&e.control))
		h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		h.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(e.control[unix.SizeofCmsghdr:], uint16(size))
		e.hdr.Control = &e.control[0]
		e.hdr.SetControllen(unix.CmsgSpace(2))
	}
	for {
		_, _, no := e.call(unix.SYS_SENDMSG, uintptr(unsafe.Pointer(&e.hdr)), 0)
		switch no {
		case 0:
			return nil
		case unix.EAGAIN, unix.EINTR, unix.ENOBUFS:
			continue
		}
		return fmt.Errorf("send %d bytes: %w", len(b), no)
	}
}

// receive receives a batch of datagrams into b. It returns 0 if there is none, or with
// Events if none arrived in time.
func (e *udpEnd) receive(b []byte) (int, error) {
	n, _, no := e.call(unix.SYS_RECVFROM, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	runtime.KeepAlive(b)
	switch no {
	case 0:
		return int(n), nil
	case unix.EAGAIN:
		return 0, nil
	case unix.EINTR: // the kernel does not restart a receive with a timeout after a signal
		return e.receive(b)
	}
	return 0, fmt.Errorf("receive: %w", no)
}

// call makes a system call. Only calls that may sleep go through Go's scheduler.
func (e *udpEnd) call(trap, a, b uintptr) (uintptr, uintptr, syscall.Errno) {
	if e.c.Events {
		return syscall.Syscall6(trap, uintptr(e.fd), a, b, 0, 0, 0)
	}
	return syscall.RawSyscall6(trap, uintptr(e.fd), a, b, 0, 0, 0)
}

func (e *udpEnd) until() time.Time {
	return time.Now().Add(e.c.duration())
}

func (e *udpEnd) ask() (r Result, err error) {
	if e.c.Kind == Ping {
		r, err = e.ping()
	} else {
		err = e.stream()
	}
	if err != nil {
		return r, err
	}
	return r, e.send([]byte{0}, sayEnd)
}

func (e *udpEnd) stream() error {
	data := make([]byte, batch/e.c.Segment*e.c.Segment)
	ack := make([]byte, 1<<16)
	var sent, acked uint64
	until, heard := e.until(), time.Now()
	empty := 0
	for now := time.Now(); now.Before(until); now = time.Now() {
		for sent-acked+uint64(len(data)) <= window {
			if err := e.send(data, e.c.Segment); err != nil {
				return err
			}
			sent += uint64(len(data))
		}
		n, err := e.receive(ack)
		if err != nil {
			return err
		}
		switch {
		case n >= 8: // the last of possibly several acknowledges
			acked, heard, empty = binary.LittleEndian.Uint64(ack[n-8:n]), now, 0
		case now.Sub(heard) > quiet:
			return errors.New("datagrams were lost: is the receiver's socket buffer too small?")
		default:
			empty++
			e.yield(empty)
		}
	}
	return nil
}

func (e *udpEnd) ping() (Result, error) {
	out, in := make([]byte, e.c.Bytes), make([]byte, 1<<16)
	var trips []time.Duration
	until := e.until()
	for last := time.Now(); last.Before(until) && len(trips) < maxSamples; {
		if err := e.send(out, len(out)); err != nil {
			return Result{}, err
		}
		if n, err := e.await(in); n == 0 {
			return Result{}, errors.Join(errors.New("no answer to a datagram"), err)
		}
		now := time.Now()
		trips = append(trips, now.Sub(last))
		last = now
	}
	return latencyOf(trips), nil
}

// await waits for a datagram, and returns 0 if none arrives in time.
func (e *udpEnd) await(in []byte) (int, error) {
	var start time.Time
	for i := 1; ; i++ {
		n, err := e.receive(in)
		if n > 0 || err != nil || e.c.Events {
			return n, err
		}
		e.yield(i)
		if i%4096 != 0 {
			continue
		}
		if start.IsZero() {
			start = time.Now()
		} else if time.Since(start) > quiet {
			return 0, nil
		}
	}
}

// yield yields the processor after some empty polls, because the other end may need it.
func (e *udpEnd) yield(empty int) {
	if empty%16 == 0 {
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func (e *udpEnd) serve() (t received, err error) {
	in := make([]byte, 1<<16)
	var ack [8]byte
	var acked int64
	for {
		n, err := e.await(in)
		if n == 0 || n == sayEnd || err != nil {
			return t, err
		}
		t.Bytes += int64(n)
		switch {
		case e.c.Kind == Ping:
			err = e.send(in[:n], n)
		case t.Bytes-acked >= ackEvery:
			acked = t.Bytes
			binary.LittleEndian.PutUint64(ack[:], uint64(t.Bytes))
			err = e.send(ack[:], len(ack))
		}
		if err != nil {
			return t, err
		}
	}
}
