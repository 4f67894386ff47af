package simnet

import (
	"io"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/link"
)

// A stream is one end of a stream.
type stream struct {
	notice
	l             *StreamLink
	local, remote netip.AddrPort
	peer          *stream // nil until it is connected
	dialed        bool    // connecting has ended
	err           error   // of Write, and of Read once in is empty
	in            []byte  // arrived and not read
	eof           bool
	held          int  // bytes accepted by Write that the link has not sent
	used          int  // part of the window: written here and not read there
	wants         bool // a Write waits for room
	shut          bool
	last          time.Duration // when the last piece arrives
	tcp           *tcp          // carries the data of this end; nil without TCP
	told          bool          // the peer knows that no more data follows
}

// fail ends a stream with an error.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err, s.dialed = err, true
	}
	s.l.notify(&s.notice, link.Readiness{Readable: true, Writable: true, Hangup: true})
}

// Local returns this end's address and port.
func (s *stream) Local() netip.AddrPort { return s.local }

// Remote returns the peer's address and port.
func (s *stream) Remote() netip.AddrPort { return s.remote }

// Segment implements link.Stream. The size is unknown.
func (s *stream) Segment() int { return 0 }

// Connected implements link.Stream.
func (s *stream) Connected() error {
	if !s.dialed {
		return link.ErrWouldBlock
	}
	return s.err
}

// Read returns received data, or a part of it.
func (s *stream) Read(pieces [][]byte) (n int, err error) {
	limit := len(s.in)
	if c := s.l.config.Read; c > 0 && limit > 0 {
		limit = 1 + s.l.random.IntN(min(limit, c))
	}
	room := 0
	for _, p := range pieces {
		k := copy(p, s.in[:limit-n])
		s.in = s.in[k:]
		n += k
		room += len(p)
	}
	switch {
	case n > 0:
		if len(s.in) > 0 && n < room {
			s.l.notify(&s.notice, link.Readiness{Readable: true}) // there is more
		}
		s.free(n)
		return n, nil
	case s.err != nil:
		return 0, s.err
	case s.eof && s.held == 0:
		return 0, io.EOF
	}
	return 0, link.ErrWouldBlock
}

// free returns n bytes of window to the peer. With TCP the acknowledge does that.
func (s *stream) free(n int) {
	if s.tcp != nil {
		return
	}
	p, net := s.peer, s.l.net
	net.call(net.now+s.l.config.Delay, func() { p.room(n) })
}

// room frees n bytes of window.
func (s *stream) room(n int) {
	s.used -= n
	if s.wants {
		s.wants = false
		s.l.notify(&s.notice, link.Readiness{Writable: true})
	}
}

// readable reports that data has arrived.
func (s *stream) readable() { s.l.notify(&s.notice, link.Readiness{Readable: true}) }

// Write sends as much as the window has room for.
func (s *stream) Write(pieces [][]byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	for _, p := range pieces {
		k := min(len(p), s.l.config.Window-s.used-n)
		for b := p[:k]; len(b) > 0; {
			step := len(b)
			if c := s.l.config.Segment; c > 0 {
				step = 1 + s.l.random.IntN(min(step, c))
			}
			s.hold(b[:step])
			b = b[step:]
		}
		if n += k; k < len(p) {
			s.wants = true
			break
		}
	}
	if s.used += n; n == 0 {
		return 0, link.ErrWouldBlock
	}
	return n, nil
}

// hold sends a piece after the link's hold time.
func (s *stream) hold(b []byte) {
	d := s.l.config.Hold
	if d == 0 {
		s.carry(b)
		return
	}
	data := append([]byte(nil), b...)
	s.held += len(data)
	s.l.net.call(s.l.net.now+d, func() {
		if s.l.exited || s.told {
			return
		}
		s.held -= len(data)
		s.carry(data)
		s.l.notify(&s.notice, link.Readiness{Readable: s.eof, Writable: true, Hangup: s.eof})
		s.finish()
	})
}

// Held implements link.Stream.
func (s *stream) Held() int { return s.held }

// carry sends a piece.
func (s *stream) carry(b []byte) {
	if s.tcp != nil {
		s.tcp.write(b)
		return
	}
	n := s.l.net
	data := append([]byte(nil), b...)
	n.note(noteSent, s.l.index, &packet{data: data, src: s.local})
	cut := s.l.config.Cut > 0 && s.l.random.Float64() < s.l.config.Cut
	n.call(s.due(), func() {
		p := s.peer
		if p.gone {
			s.fail(syscall.ECONNRESET)
			return
		}
		p.in = append(p.in, data...)
		n.note(noteReceived, p.l.index, &packet{data: data, src: s.local})
		p.readable()
		if cut {
			s.fail(syscall.ECONNRESET)
			p.fail(syscall.ECONNRESET)
		}
	})
}

// due returns the arrival time of what is sent now, which is not before that of earlier
// pieces.
func (s *stream) due() time.Duration {
	d := s.l.config.Delay
	if j := s.l.config.Jitter; j > 0 {
		d += time.Duration(s.l.random.Int64N(int64(j)))
	}
	s.last = max(s.last, s.l.net.now+d)
	return s.last
}

// ShutWrite tells the peer that no more data follows.
func (s *stream) ShutWrite() error {
	if s.shut || s.peer == nil {
		return nil
	}
	s.shut = true
	s.finish()
	return nil
}

// finish tells the peer of the end once all data before it is in flight, or with TCP once it
// has arrived.
func (s *stream) finish() {
	if !s.shut || s.told || s.held > 0 || s.tcp != nil && len(s.tcp.buffer) > 0 {
		return
	}
	s.told = true
	s.l.net.call(s.due(), func() {
		s.peer.eof = true
		s.peer.l.notify(&s.peer.notice, link.Readiness{Readable: true, Hangup: true})
	})
}

// Close implements link.Stream. Written data still arrives.
func (s *stream) Close() error {
	if s.gone {
		return link.ErrClosed
	}
	_ = s.ShutWrite() // it never fails
	s.gone = true
	s.l.open--
	return nil
}

// Reset implements link.Stream.
func (s *stream) Reset() error {
	if s.gone {
		return link.ErrClosed
	}
	s.gone, s.shut, s.told = true, true, true
	s.l.open--
	if p := s.peer; p != nil {
		s.l.net.call(s.l.net.now+s.l.config.Delay, func() { p.fail(syscall.ECONNRESET) })
	}
	return nil
}
