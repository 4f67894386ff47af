package simnet

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"softrdma/internal/link"
)

// A StreamConfig configures a link of streams. Bytes arrive complete and in order, as with
// TCP, but later and in other pieces than they were written in.
type StreamConfig struct {
	Delay   time.Duration // of each piece
	Jitter  time.Duration // maximum of additional delay; pieces that catch up arrive together
	Segment int           // largest piece, of random length; 0 keeps writes whole
	Hold    time.Duration // how long the link holds data before it sends it
	Window  int           // maximum of bytes written and not read; 0 means 64 KiB
	Read    int           // maximum of bytes per Read, of random length; 0 means all that arrived
	Cut     float64       // probability that the stream is reset after a piece
}

const defaultWindow = 64 << 10

// A StreamLink is a link.Streams on a simulated network.
type StreamLink struct {
	net    *Network
	index  int
	local  netip.Addr
	config StreamConfig
	random *rand.Rand
	port   uint16 // last chosen port

	listeners map[uint16]*streamListener
	ready     []*notice
	tcp       *TCPConfig // configuration of TCP, and the link that carries its segments
	packets   *Link
	open      int
	closed    bool
	exited    bool
}

// AttachStreams makes a link of streams with its own address.
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

// Open returns the number of open streams and listeners of the link, for tests of leaks.
func (l *StreamLink) Open() int { return l.open }

// A notice is what Ready will report for a stream or listener.
type notice struct {
	link.Readiness
	queued, gone bool
}

func (l *StreamLink) notify(x *notice, r link.Readiness) {
	x.Readable, x.Writable, x.Hangup = x.Readable || r.Readable, x.Writable || r.Writable, x.Hangup || r.Hangup
	if !x.queued && !x.gone && x.Owner != nil {
		x.queued = true
		l.ready = append(l.ready, x)
	}
}

// Ready implements link.Streams.
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

// Listen implements link.Streams.
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

// Addr implements link.Listener.
func (x *streamListener) Addr() netip.AddrPort { return x.addr }

// Accept implements link.Listener.
func (x *streamListener) Accept(owner any) (link.Stream, error) {
	if len(x.queue) == 0 {
		return nil, link.ErrWouldBlock
	}
	s := x.queue[0]
	x.queue = x.queue[1:]
	s.Owner = owner
	s.l.notify(&s.notice, link.Readiness{Readable: len(s.in) > 0, Writable: true, Hangup: s.eof || s.err != nil})
	return s, nil
}

// Close implements link.Listener. It resets streams that were not accepted.
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

// Dial implements link.Streams.
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

// reach handles the arrival of the connection request at the peer.
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
	if to.tcp != nil && s.l.tcp != nil {
		s.tcp, p.tcp = newTCP(s, *s.l.tcp), newTCP(p, *to.tcp)
	}
	x.queue = append(x.queue, p)
	to.notify(&x.notice, link.Readiness{Readable: true})
	n.call(n.now+to.config.Delay, func() {
		s.dialed = true
		s.l.notify(&s.notice, link.Readiness{Writable: true})
	})
}

// Local implements link.Streams.
func (l *StreamLink) Local() netip.AddrPort { return netip.AddrPortFrom(l.local, 0) }

// Wait is never called, because the network drives the devices.
func (l *StreamLink) Wait(time.Duration) error { return link.ErrClosed }

// Wake does nothing.
func (l *StreamLink) Wake() {}

// Exit simulates the end of the program: held data is lost.
func (l *StreamLink) Exit() { l.exited = true }

// Close implements link.Waiter. Written data still arrives.
func (l *StreamLink) Close() error {
	l.closed = true
	return nil
}
