//go:build !linux || softrdma_portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/wake"
)

// A Link is a link.Datagrams over UDP sockets of package net: one packet per system call, with a
// receiving goroutine. It supports neither type of service nor hop limit of received packets,
// and no multicast groups.
type Link struct {
	life  wake.Lifetime
	cfg   Config
	local netip.AddrPort
	rx    endpoint
	flows flowTable

	full   chan packet   // received, not yet returned
	free   chan []byte   // free buffers
	held   []byte        // the buffer of the last Receive
	ready  chan struct{} // signals a packet in full
	wake   chan struct{}
	ended  chan struct{}
	packet []byte // being sent

	receiveBuffer int
}

var _ link.Datagrams = (*Link)(nil)

// An endpoint is a socket with the header fields that were last set on it.
type endpoint struct {
	conn      *net.UDPConn
	tos, hops int // -1 before the first
}

func (e *endpoint) close() { _ = e.conn.Close() }

// identification returns 0, as for unconnected sockets on Linux. Other systems cannot be
// asked.
func (*endpoint) identification() (first uint16, counts bool) { return 0, false }

type destination = netip.AddrPort

type packet struct {
	data []byte
	src  netip.AddrPort
}

const (
	// bufferLen holds the longest packet: the MTU of 4096, headers, ICRC.
	bufferLen = 4608

	// buffers is the number of packets that can wait for Receive.
	buffers = 512
)

// Open opens the link of one local address. Port 0 chooses a free one. The address must be a
// unicast address of this host, and no other link may be open on it.
func Open(local netip.AddrPort, cfg Config) (*Link, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	if _, err := interfaceOf(local.Addr()); err != nil {
		return nil, fmt.Errorf("open UDP link on %v: %w: expected an address of this host", local, err)
	}
	l := &Link{cfg: cfg.withDefaults(), local: local}
	if l.rx, err = l.listen(local); err != nil {
		return nil, fmt.Errorf("open UDP link: address %v already in use by another device, or not available: %w", local, err)
	}
	l.local = netip.AddrPortFrom(local.Addr(), l.rx.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	// There is no portable way to ask for the size granted. Systems other than Linux
	// grant all or nothing. The usable share is as on Linux.
	if l.rx.conn.SetReadBuffer(l.cfg.ReceiveBuffer) == nil {
		l.receiveBuffer = l.cfg.ReceiveBuffer * 45 / 100
	} else {
		l.receiveBuffer = 64 << 10
	}
	l.receiveBuffer = min(l.receiveBuffer, buffers*bufferLen)
	l.flows = newFlowTable(l.cfg.MaxFlowSockets, 0)
	l.full, l.free = make(chan packet, buffers), make(chan []byte, buffers+1)
	l.ready, l.wake, l.ended = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	for range buffers {
		l.free <- make([]byte, bufferLen)
	}
	l.life.Init(l.release)
	l.life.Enter()
	go l.read()
	return l, nil
}

func (l *Link) listen(a netip.AddrPort) (endpoint, error) {
	network := "udp6"
	if a.Addr().Is4() {
		network = "udp4"
	}
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(a))
	if err != nil {
		return endpoint{}, err
	}
	_ = c.SetWriteBuffer(l.cfg.SendBuffer)
	o := optionsOf(a.Addr())
	if o.fragment != 0 { // if the system supports it: RoCE v2 forbids fragments (A17.3.1.1.5)
		_ = setOption(c, o.level, o.fragment, o.never)
	}
	return endpoint{conn: c, tos: -1, hops: -1}, nil
}

// read receives until the link is closed.
func (l *Link) read() {
	defer l.life.Leave()
	for {
		var b []byte
		select {
		case b = <-l.free:
		case <-l.ended:
			return
		}
		n, src, err := l.rx.conn.ReadFromUDPAddrPort(b[:bufferLen])
		if l.life.Closed() {
			return
		}
		if err != nil || n == 0 {
			// Errors are about packets sent earlier (Windows), or about a datagram longer than
			// any RoCE v2 packet.
			l.free <- b
			if err != nil && !errors.Is(err, errTooLong) {
				time.Sleep(time.Millisecond)
			}
			continue
		}
		l.full <- packet{b[:n], onWire(src)}
		select {
		case l.ready <- struct{}{}:
		default:
		}
	}
}

// release closes everything. It runs when no call is in progress.
func (l *Link) release() {
	l.flows.each((*endpoint).close)
	_ = l.rx.conn.Close()
}

// Close makes every call on the link, current and later ones, end with link.ErrClosed.
func (l *Link) Close() error {
	l.life.Close(func() {
		close(l.ended)
		_ = l.rx.conn.SetReadDeadline(time.Now())
	})
	return nil
}

// Local returns the address and port that peers send to.
func (l *Link) Local() netip.AddrPort { return l.local }

// Capabilities implements link.Packets. The receive buffer is an estimate.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, ReceiveBuffer: l.receiveBuffer, Returner: l}
}

func (l *Link) receiver() (*endpoint, netip.AddrPort) { return &l.rx, l.local }

func (l *Link) segments() int { return 1 }

func (l *Link) destination(dst netip.AddrPort) destination {
	if dst.Addr().IsLinkLocalUnicast() && dst.Addr().Is6() {
		return netip.AddrPortFrom(dst.Addr().WithZone(l.local.Addr().Zone()), dst.Port())
	}
	return dst
}

func (l *Link) again(*endpoint) {}

// dial makes a flow's socket. It is never read, so its buffer is small.
func (l *Link) dial(_ netip.AddrPort, port uint16) (*endpoint, netip.AddrPort, error) {
	var e endpoint
	var err error
	for i := range portTries {
		if e, err = l.listen(netip.AddrPortFrom(l.local.Addr(), portAfter(port, i))); err == nil {
			break
		}
	}
	if err != nil {
		if e, err = l.listen(netip.AddrPortFrom(l.local.Addr(), 0)); err != nil {
			return nil, l.local, err
		}
	}
	_ = e.conn.SetReadBuffer(bufferLen)
	src := netip.AddrPortFrom(l.local.Addr(), e.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	return &e, src, nil
}

// Send transmits a batch, packet by packet.
func (l *Link) Send(tx *link.Tx) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	f := l.flows.find(tx.Flow)
	if f == nil {
		return errNoFlow(tx.Flow)
	}
	if err := checkBatch(tx); err != nil {
		return err
	}
	l.setHeader(f, tx)
	l.packet = l.packet[:0]
	left := tx.Bytes
	for _, p := range tx.Pieces {
		for len(p) > 0 {
			if left == 0 {
				return errPieces(tx)
			}
			n := min(len(p), tx.Size-len(l.packet), left)
			l.packet = append(l.packet, p[:n]...)
			p, left = p[n:], left-n
			if len(l.packet) == tx.Size || left == 0 {
				if _, err := f.end.conn.WriteToUDPAddrPort(l.packet, f.to); err != nil {
					return f.sendError(tx, err, false)
				}
				l.packet = l.packet[:0]
			}
		}
	}
	if left != 0 {
		return errPieces(tx)
	}
	return nil
}

// setHeader sets type of service and hop limit if they change. A system that refuses sends
// with its defaults, which the ICRC does not cover.
func (l *Link) setHeader(f *flow, tx *link.Tx) {
	o := optionsOf(l.local.Addr())
	if f.end.tos != int(tx.TOS) && o.tos != 0 {
		_ = setOption(f.end.conn, o.level, o.tos, int(tx.TOS))
		f.end.tos = int(tx.TOS)
	}
	if f.end.hops != int(tx.HopLimit) && o.hops != 0 {
		hops := int(tx.HopLimit)
		if hops == 0 {
			hops = 64
		}
		_ = setOption(f.end.conn, o.level, o.hops, hops)
		f.end.hops = int(tx.HopLimit)
	}
}

// Receive fills rx with the next packet, without waiting. Its addresses have no zone: they are
// on the link's interface.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if !l.life.Enter() {
		return false, link.ErrClosed
	}
	defer l.life.Leave()
	select {
	case p := <-l.full:
		if l.held != nil {
			l.free <- l.held
		}
		l.held = p.data[:bufferLen]
		*rx = link.Rx{Data: p.data, Size: len(p.data), Src: p.src, Dst: onWire(l.local)}
		return true, nil
	default:
		return false, nil
	}
}

// Wait blocks until something can be received, Wake or Close is called or d has
// passed; d < 0 means no limit.
func (l *Link) Wait(d time.Duration) error {
	if !l.life.Enter() {
		return link.ErrClosed
	}
	defer l.life.Leave()
	var timeout <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	for len(l.full) == 0 {
		select {
		case <-l.ready: // or was, before the last Receive
			continue
		case <-l.wake:
		case <-timeout:
		case <-l.ended:
			return link.ErrClosed
		}
		break
	}
	if l.life.Closed() {
		return link.ErrClosed
	}
	return nil
}

// Wake ends the current or the next Wait.
func (l *Link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Join is not supported.
func (l *Link) Join(group netip.Addr) error {
	if l.life.Closed() {
		return link.ErrClosed
	}
	return fmt.Errorf("join %v: multicast groups on %s: %w", group, runtime.GOOS, errors.ErrUnsupported)
}

// Leave is not supported.
func (l *Link) Leave(group netip.Addr) error { return l.Join(group) }

// options are the numbers of socket options, which differ between systems. 0 means that the
// system lacks the option.
type options struct {
	level, tos, hops int
	fragment, never  int // the option that forbids fragmentation, and its value
}

func optionsOf(a netip.Addr) options {
	if a.Is4() {
		return options4
	}
	return options6
}
