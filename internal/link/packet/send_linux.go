package packet

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// maxPieces is UIO_MAXIOV, the longest gather list that the kernel accepts.
	maxPieces = 1024

	// roomTime is how long Send waits for room in a full send buffer or queue.
	roomTime = 5 * time.Millisecond

	queuePause = 100 * time.Microsecond // between two attempts to enter a full queue
)

// A sender holds the memory that Send needs, so that it does not allocate.
type sender struct {
	iov  [maxPieces + link.MaxPackets]unix.Iovec
	msgs [link.MaxPackets]unix.Mmsghdr
	wire unix.RawSockaddrLinklayer
	host unix.RawSockaddrLinklayer
}

// Send transmits a batch of frames, each as a separate message.
func (l *Link) Send(tx *link.Tx) error {
	if !l.Enter() {
		return errClosed
	}
	defer l.Leave()
	if tx.Flow == nil || uint(tx.Flow.Handle) >= routes {
		return ErrFlow
	}
	n, ok := l.out.cut(tx.Pieces, tx.Size)
	if !ok {
		clear(l.out.iov[:])
		return fmt.Errorf("%w: %d bytes in frames of %d", ErrBatch, tx.Bytes, tx.Size)
	}
	var err unix.Errno
	via := tx.Flow.Handle
	if via != host {
		err = l.transmit(n, &l.out.wire)
	}
	if via == host || via == everywhere && l.out.host != l.out.wire {
		if e := l.transmit(n, &l.out.host); err == 0 {
			err = e
		}
	}
	l.out.forget(n)
	runtime.KeepAlive(tx.Pieces)
	if err != 0 {
		return fmt.Errorf("send %d bytes in frames of %d by %s: %w", tx.Bytes, tx.Size, l.iface.name, err)
	}
	return nil
}

// cut divides pieces into messages of size bytes each, the last of which may be shorter. It
// returns the number of messages, and false if there are too many.
func (s *sender) cut(pieces [][]byte, size int) (n int, ok bool) {
	iov, first, room := 0, 0, size
	for _, p := range pieces {
		for len(p) > 0 {
			if room == 0 {
				if n+1 >= len(s.msgs) {
					return 0, false
				}
				s.message(n, first, iov)
				n, first, room = n+1, iov, size
			}
			if iov == len(s.iov) || room < 0 {
				return 0, false
			}
			k := min(len(p), room)
			s.iov[iov].Base = &p[0]
			s.iov[iov].SetLen(k)
			iov++
			p, room = p[k:], room-k
		}
	}
	if first == iov {
		return 0, false
	}
	s.message(n, first, iov)
	return n + 1, true
}

// message sets message n to the pieces from first to end.
func (s *sender) message(n, first, end int) {
	h := &s.msgs[n].Hdr
	h.Iov = &s.iov[first]
	h.SetIovlen(end - first)
}

// forget clears the pointers to the pieces of n messages, because the caller may
// unmap that memory.
func (s *sender) forget(n int) {
	last := &s.msgs[n-1].Hdr
	used := int((uintptr(unsafe.Pointer(last.Iov))-uintptr(unsafe.Pointer(&s.iov)))/unsafe.Sizeof(s.iov[0])) + int(last.Iovlen)
	clear(s.iov[:used])
}

// transmit sends n messages by an interface. It waits a limited time for room.
func (l *Link) transmit(n int, to *unix.RawSockaddrLinklayer) unix.Errno {
	msgs := l.out.msgs[:n]
	for i := range msgs {
		msgs[i].Hdr.Name, msgs[i].Hdr.Namelen = (*byte)(unsafe.Pointer(to)), unix.SizeofSockaddrLinklayer
	}
	var deadline time.Time
	for len(msgs) > 0 {
		sent, _, err := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&msgs[0])), uintptr(len(msgs)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch err {
		case 0:
			msgs = msgs[sent:]
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			if deadline.IsZero() {
				deadline = time.Now().Add(roomTime)
			}
			if !l.waitRoom(err, deadline) {
				return err
			}
		default:
			return err
		}
	}
	return 0
}

// waitRoom waits until a full send buffer has room, or for a moment if the interface's queue
// is full (ENOBUFS). It reports whether to try again.
func (l *Link) waitRoom(err unix.Errno, deadline time.Time) bool {
	left := time.Until(deadline)
	if left <= 0 || l.Closed() {
		return false
	}
	p := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLOUT}}
	if err == unix.ENOBUFS {
		p, left = nil, min(left, queuePause)
	}
	ts := unix.NsecToTimespec(left.Nanoseconds())
	_, _ = unix.Ppoll(p, &ts, nil)
	return true
}
