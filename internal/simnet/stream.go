package simnet

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/link"
)

// A StreamConfig says what a link of streams does to the bytes of its own end, which
// arrive whole and in order as TCP's do, but neither when nor in the pieces that they
// were written in.
type StreamConfig struct {
	Delay   time.Duration // of each piece
	Jitter  time.Duration // at most so much more, by the seed; pieces that catch up arrive together
	Segment int           // longest piece on its way, of random length; 0 leaves what was written together
	Window  int           // bytes that were written and not read; 0 means 64 KiB
	Read    int           // most bytes that one Read gives, of random length; 0 is all that has come
	Cut     float64       // chance of each piece that the stream is reset with it
}

const defaultWindow = 64 << 10

// A StreamLink is a link.Streams on a simulated network.
type StreamLink struct {
	net    *Network
	index  int
	local  netip.Addr
	config StreamConfig
	random *rand.Rand
	port   uint16 // the last that was drawn

	listeners map[uint16]*streamListener
	ready     []*notice
	open      int
	closed    bool
}

// AttachStreams makes a link of streams with an address of its own.
func (n *Network) AttachStreams(local netip.Addr, c StreamConfig) *StreamLink {
	if n.findStreams(local) != nil {
		panic(fmt.Sprintf("simnet: %v is attached already", local))
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	i := len(n.streams)
	l := &StreamLink{
		net: n, index: i, local: local, config: c, random: n.Random(3<<32 | uint64(i)), port: 49151,
		listeners: make(map[uint16]*streamListener),
	}
	n.streams = append(n.streams, l)
	return l
}

func (n *Network) findStreams(a netip.Addr) *StreamLink {
	for _, l := range n.streams {
		if l.local == a && !l.closed {
			return l
		}
	}
	return nil
}

// Open is how many streams and listeners of the link are open, for tests of leaks.
func (l *StreamLink) Open() int { return l.open }

// A notice is what there is to tell of a stream or listener.
type notice struct {
	link.Readiness
	queued, gone bool
}

func (l *StreamLink) tell(x *notice, r link.Readiness) {
	x.Readable, x.Writable, x.Hangup = x.Readable || r.Readable, x.Writable || r.Writable, x.Hangup || r.Hangup
	if !x.queued && !x.gone && x.Owner != nil {
		x.queued = true
		l.ready = append(l.ready, x)
	}
}

// Ready tells what has become ready since the last call.
func (l *StreamLink) Ready(list []link.Readiness) (n int, err error) {
	if l.closed {
		return 0, link.ErrClosed
	}
	for len(l.ready) > 0 && n < len(list) {
		x := l.ready[0]
		l.ready = l.ready[1:]
		if x.queued = false; x.gone {
			continue
		}
		list[n] = x.Readiness
		n++
		x.Readiness = link.Readiness{Owner: x.Owner}
	}
	return n, nil
}

type streamListener struct {
	notice
	l     *StreamLink
	addr  netip.AddrPort
	queue []*stream // connected, not accepted
}

// Listen accepts streams on a port.
func (l *StreamLink) Listen(port uint16, _ int, owner any) (link.Listener, error) {
	if port == 0 {
		port = l.draw()
	}
	if l.listeners[port] != nil {
		return nil, syscall.EADDRINUSE
	}
	x := &streamListener{l: l, addr: netip.AddrPortFrom(l.local, port)}
	x.Owner = owner
	l.listeners[port] = x
	l.open++
	return x, nil
}

func (l *StreamLink) draw() uint16 {
	l.port++
	return l.port
}

// Addr is the address and port.
func (x *streamListener) Addr() netip.AddrPort { return x.addr }

// Accept takes the next stream.
func (x *streamListener) Accept(owner any) (link.Stream, error) {
	if len(x.queue) == 0 {
		return nil, link.ErrWouldBlock
	}
	s := x.queue[0]
	x.queue = x.queue[1:]
	s.Owner = owner
	s.l.tell(&s.notice, link.Readiness{Readable: len(s.in) > 0, Writable: true, Hangup: s.eof || s.err != nil})
	return s, nil
}

// Close ends it; streams that were not accepted are reset.
func (x *streamListener) Close() error {
	if x.gone {
		return link.ErrClosed
	}
	x.gone = true
	x.l.open--
	delete(x.l.listeners, x.addr.Port())
	for _, s := range x.queue {
		_ = s.Reset() // it is open
	}
	return nil
}

// A stream is one end of a stream.
type stream struct {
	notice
	l             *StreamLink
	local, remote netip.AddrPort
	peer          *stream // nil until it is connected
	dialed        bool    // connecting has ended
	err           error   // what Read and Write give once what has come is read
	in            []byte  // has come, and was not read
	eof           bool
	used          int // of the window: written here and not read there
	wants         bool
	shut          bool
	last          time.Duration // when the last piece arrives
}

// Dial begins to connect to a peer.
func (l *StreamLink) Dial(port uint16, dst netip.AddrPort, _ uint8, owner any) (link.Stream, error) {
	if l.closed {
		return nil, link.ErrClosed
	}
	if port == 0 {
		port = l.draw()
	}
	s := &stream{l: l, local: netip.AddrPortFrom(l.local, port), remote: dst}
	s.Owner = owner
	l.open++
	l.net.call(l.net.now+l.config.Delay, func() { s.reach() })
	return s, nil
}

// reach is when the call comes to the peer.
func (s *stream) reach() {
	n := s.l.net
	to := n.findStreams(s.remote.Addr())
	var x *streamListener
	if to != nil {
		x = to.listeners[s.remote.Port()]
	}
	if s.gone {
		return
	}
	if x == nil {
		n.call(n.now+s.l.config.Delay, func() { s.fail(syscall.ECONNREFUSED) })
		return
	}
	p := &stream{l: to, local: s.remote, remote: s.local, peer: s, dialed: true}
	to.open++
	s.peer = p
	x.queue = append(x.queue, p)
	to.tell(&x.notice, link.Readiness{Readable: true})
	n.call(n.now+to.config.Delay, func() {
		s.dialed = true
		s.l.tell(&s.notice, link.Readiness{Writable: true})
	})
}

// fail ends a stream with an error.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err, s.dialed = err, true
	}
	s.l.tell(&s.notice, link.Readiness{Readable: true, Writable: true, Hangup: true})
}

// Local is this end's address and port.
func (s *stream) Local() netip.AddrPort { return s.local }

// Remote is the peer's.
func (s *stream) Remote() netip.AddrPort { return s.remote }

// Segment is not told.
func (s *stream) Segment() int { return 0 }

// Connected tells how connecting went.
func (s *stream) Connected() error {
	if !s.dialed {
		return link.ErrWouldBlock
	}
	return s.err
}

// Read reads what has come, or a part of it.
func (s *stream) Read(pieces [][]byte) (n int, err error) {
	most := len(s.in)
	if c := s.l.config.Read; c > 0 && most > 0 {
		most = 1 + s.l.random.IntN(min(most, c))
	}
	room := 0
	for _, p := range pieces {
		k := copy(p, s.in[:most-n])
		s.in = s.in[k:]
		n += k
		room += len(p)
	}
	switch {
	case n > 0:
		if len(s.in) > 0 && n < room {
			s.l.tell(&s.notice, link.Readiness{Readable: true}) // more has come
		}
		s.free(n)
		return n, nil
	case s.err != nil:
		return 0, s.err
	case s.eof:
		return 0, io.EOF
	}
	return 0, link.ErrWouldBlock
}

// free gives the peer n bytes of its window back.
func (s *stream) free(n int) {
	p, net := s.peer, s.l.net
	net.call(net.now+s.l.config.Delay, func() {
		p.used -= n
		if p.wants {
			p.wants = false
			p.l.tell(&p.notice, link.Readiness{Writable: true})
		}
	})
}

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
			s.carry(b[:step])
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

// carry sends a piece on its way.
func (s *stream) carry(b []byte) {
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
		p.l.tell(&p.notice, link.Readiness{Readable: true})
		if cut {
			s.fail(syscall.ECONNRESET)
			p.fail(syscall.ECONNRESET)
		}
	})
}

// due is when what is sent now arrives: behind all before it.
func (s *stream) due() time.Duration {
	d := s.l.config.Delay
	if j := s.l.config.Jitter; j > 0 {
		d += time.Duration(s.l.random.Int64N(int64(j)))
	}
	s.last = max(s.last, s.l.net.now+d)
	return s.last
}

// ShutWrite tells the peer that nothing more will be sent.
func (s *stream) ShutWrite() error {
	if s.shut || s.peer == nil {
		return nil
	}
	s.shut = true
	s.l.net.call(s.due(), func() {
		s.peer.eof = true
		s.peer.l.tell(&s.peer.notice, link.Readiness{Readable: true, Hangup: true})
	})
	return nil
}

// Close ends the stream; what was written still arrives.
func (s *stream) Close() error {
	if s.gone {
		return link.ErrClosed
	}
	_ = s.ShutWrite() // it never fails
	s.gone = true
	s.l.open--
	return nil
}

// Reset ends it at once.
func (s *stream) Reset() error {
	if s.gone {
		return link.ErrClosed
	}
	s.gone, s.shut = true, true
	s.l.open--
	if p := s.peer; p != nil {
		s.l.net.call(s.l.net.now+s.l.config.Delay, func() { p.fail(syscall.ECONNRESET) })
	}
	return nil
}

// Local is the link's address.
func (l *StreamLink) Local() netip.AddrPort { return netip.AddrPortFrom(l.local, 0) }

// Wait is never called of a device that the network drives.
func (l *StreamLink) Wait(time.Duration) error { return link.ErrClosed }

// Wake has nothing to do.
func (l *StreamLink) Wake() {}

// Close closes the link. What was written still arrives.
func (l *StreamLink) Close() error {
	l.closed = true
	return nil
}
