package tcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A relayedLink is the link of a process whose connections another process makes and accepts, and
// relays (link.Relayer). Its streams are sockets to that process.
type relayedLink struct {
	*epollLink
	connect Connect
}

var _ link.Adopter = (*relayedLink)(nil)

// A Connect asks another process, without waiting, to connect to a peer and to relay the bytes of
// the socket fd, which stays the caller's.
type Connect func(fd int, port uint16, dst netip.AddrPort, tos uint8) error

// OpenRelayed opens a link whose streams another process connects.
func OpenRelayed(local netip.Addr, connect Connect) (link.Streams, error) {
	l, err := Open(local, Config{})
	if err != nil {
		return nil, err
	}
	return &relayedLink{l.(*epollLink), connect}, nil
}

// Listen implements link.Streams: only the other process listens.
func (*relayedLink) Listen(uint16, int, any) (link.Listener, error) {
	return nil, fmt.Errorf("listen on a link without connections of its own: %w", errors.ErrUnsupported)
}

// Dial implements link.Streams.
func (l *relayedLink) Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (link.Stream, error) {
	if l.closed.Load() {
		return nil, link.ErrClosed
	}
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	if err := l.checkPeer(dst); err != nil {
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", dst, os.NewSyscallError("socketpair", err))
	}
	defer unix.Close(fds[1])
	s := &relayedStream{stream: stream{l: l.epollLink, fd: fds[0], remote: dst}}
	s.at.Store(&netip.AddrPort{})
	if err = l.watch(s.fd, owner); err == nil {
		err = l.connect(fds[1], port, dst, tos)
	}
	if err != nil {
		if l.forget(s.fd) == link.ErrClosed {
			_ = unix.Close(s.fd)
		}
		return nil, fmt.Errorf("connect to %v: %w", dst, err)
	}
	return s, nil
}

// Adopt implements link.Adopter.
func (l *relayedLink) Adopt(fd int, owner any) (link.Stream, error) {
	s := &relayedStream{stream: stream{l: l.epollLink, fd: fd}}
	err := s.Connected()
	if err == nil {
		err = l.watch(fd, owner)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("continue a stream: %w", err)
	}
	return s, nil
}

// A relayedStream is a stream of a relayedLink.
type relayedStream struct {
	stream
	at     atomic.Pointer[netip.AddrPort] // this end's address
	open   bool                           // connected
	header [chunkHeader]byte              // of the next chunk, of which the first bytes have come:
	got    int
	left   int   // bytes of the chunk of data that have not been read
	owed   int   // bytes that are missing of the chunk that was written last
	err    error // what the stream has ended with
}

// Local implements link.Stream.
func (s *relayedStream) Local() netip.AddrPort { return *s.at.Load() }

// Segment implements link.Stream. With TLS it is unknown.
func (*relayedStream) Segment() int { return 0 }

// Connected implements link.Stream.
func (s *relayedStream) Connected() error {
	if s.open || s.err != nil {
		return s.err
	}
	kind, length, err := s.next()
	if err == link.ErrWouldBlock {
		return err
	}
	var o opened
	switch {
	case err != nil:
	case kind != chunkOpened:
		err = s.finish(kind, length)
	default:
		err = s.control(length, &o)
	}
	if s.err = err; err != nil {
		return err
	}
	s.open, s.remote = true, o.Remote
	s.at.Store(&o.Local)
	return nil
}

// next reads the header of the next chunk.
func (s *relayedStream) next() (kind, length int, err error) {
	for s.got < chunkHeader {
		s.l.iov[0].Base = &s.header[s.got]
		s.l.iov[0].SetLen(chunkHeader - s.got)
		n, err := s.readv(1)
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			err = errRelayLost()
		}
		if err != nil {
			return 0, 0, err
		}
		s.got += n
	}
	s.got = 0
	kind, length = parseChunk(s.header[:])
	return kind, length, nil
}

// control reads the body of a chunk of another kind than data, which was written at once.
func (s *relayedStream) control(length int, body any) error {
	b := make([]byte, min(length, maxControl))
	if n, err := unix.Read(s.fd, b); err != nil || n < length {
		return fmt.Errorf("message of the process that has the connection: expected %d bytes, found %d: %w", length, n, syscall.EPROTO)
	}
	return json.Unmarshal(b, body)
}

// finish returns why the stream has ended.
func (s *relayedStream) finish(kind, length int) error {
	if kind == chunkEnded {
		return io.EOF
	}
	var b broken
	if err := s.control(length, &b); err != nil {
		return err
	}
	return b.err()
}

// Read implements link.Stream. It returns fewer bytes than there is room for only if the socket has
// no more.
func (s *relayedStream) Read(pieces [][]byte) (total int, err error) {
	room := 0
	for _, p := range pieces {
		room += len(p)
	}
	for total < room && s.err == nil {
		if s.left == 0 {
			kind, length, err := s.next()
			switch {
			case err == link.ErrWouldBlock:
				return total, s.unless(total, err)
			case err != nil:
				s.err = err
			case kind != chunkData:
				s.err = s.finish(kind, length)
			}
			s.left = length
			continue
		}
		n, err := s.readData(pieces, total)
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			err = errRelayLost()
		}
		if err == link.ErrWouldBlock {
			return total, s.unless(total, err)
		}
		s.err = err
		total += n
	}
	return total, s.unless(total, s.err)
}

// unless returns an error if there are no bytes that come before it.
func (*relayedStream) unless(total int, err error) error {
	if total > 0 {
		return nil
	}
	return err
}

// readData reads data of one chunk behind the first skip bytes of pieces, and the next header if the
// chunk ends there.
func (s *relayedStream) readData(pieces [][]byte, skip int) (int, error) {
	count, length := s.l.gather(0, skip, s.left, pieces)
	if length == s.left {
		s.l.iov[count].Base = &s.header[0]
		s.l.iov[count].SetLen(chunkHeader)
		count++
	}
	n, err := s.readv(count)
	if n > length {
		s.got = n - length
		n = length
	}
	s.left -= n
	return n, err
}

// Write implements link.Stream.
func (s *relayedStream) Write(pieces [][]byte) (int, error) {
	if s.owed > 0 {
		count, length := s.l.gather(0, 0, s.owed, pieces)
		if length == 0 {
			return 0, nil
		}
		n, err := s.sendmsg(count)
		s.owed -= n
		return n, err
	}
	count, length := s.l.gather(1, 0, maxChunk, pieces)
	if length == 0 {
		return 0, nil
	}
	var header [chunkHeader]byte
	putChunk(header[:], chunkData, length)
	s.l.iov[0].Base = unsafe.SliceData(header[:])
	s.l.iov[0].SetLen(chunkHeader)
	n, err := s.sendmsg(count)
	if err != nil {
		return 0, err
	}
	n -= chunkHeader // which the system takes at once
	s.owed = length - n
	return n, nil
}

// Reset implements link.Stream: the end within a chunk is a reset.
func (s *relayedStream) Reset() error {
	if s.owed == 0 {
		n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err == nil {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n) // makes room: the system doubles it
		}
		var header [chunkHeader]byte
		putChunk(header[:], chunkData, 1)
		_ = unix.Sendto(s.fd, header[:], unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil) // fails if the other process has gone
	}
	return s.Close()
}
