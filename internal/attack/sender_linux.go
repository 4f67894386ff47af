package attack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"softrdma/internal/wire/ib"
)

// A Sender sends datagrams.
type Sender interface {
	// Send sends datagrams in as few system calls as possible. They may be lost
	// after Send returns.
	Send(ds ...Datagram) error
	Close() error
}

// batchSize is the system's maximum number of datagrams per system call.
const batchSize = 1024

// A batcher is an ipv4.PacketConn or ipv6.PacketConn.
type batcher interface {
	WriteBatch(ms []ipv4.Message, flags int) (int, error)
}

func batcherOf(c net.PacketConn, v4 bool) batcher {
	if v4 {
		return ipv4.NewPacketConn(c)
	}
	return ipv6.NewPacketConn(c)
}

// write sends all messages. It retries while the system's buffers are full, and ignores
// errors that an ICMP message about an earlier datagram caused.
func write(b batcher, ms []ipv4.Message) error {
	for len(ms) > 0 {
		n, err := b.WriteBatch(ms[:min(len(ms), batchSize)], 0)
		switch {
		case errors.Is(err, syscall.ENOBUFS):
			time.Sleep(time.Millisecond)
		case errors.Is(err, syscall.ECONNREFUSED):
		case err != nil:
			return err
		}
		ms = ms[max(n, 0):]
	}
	return nil
}

// A Socket is an unprivileged UDP socket.
type Socket struct {
	conn *net.UDPConn
	out  batcher
	v4   bool
	from netip.AddrPort
}

// NewSocket opens a socket that sends from an address of this host; the system chooses
// the port if it is 0. With the unspecified address each datagram is sent from its own
// Src address, which must belong to this host, as all of 127.0.0.0/8 does. All datagrams
// are sent from the socket's port.
func NewSocket(t testing.TB, from netip.AddrPort) *Socket {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(from))
	if err != nil {
		t.Fatal(err)
	}
	v4 := from.Addr().Is4()
	s := &Socket{conn: c, out: batcherOf(c, v4), v4: v4, from: c.LocalAddr().(*net.UDPAddr).AddrPort()}
	t.Cleanup(func() { s.Close() })
	return s
}

// Addr returns the socket's address and port.
func (s *Socket) Addr() netip.AddrPort { return s.from }

// MulticastByLoopback sends datagrams to IPv4 groups through the loopback interface.
func (s *Socket) MulticastByLoopback() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	return ipv4.NewPacketConn(s.conn).SetMulticastInterface(lo)
}

// Send sends datagrams. Their IPv4 identification is 0.
func (s *Socket) Send(ds ...Datagram) error {
	ms := make([]ipv4.Message, len(ds))
	for i, d := range ds {
		if port := s.from.Port(); d.Sealed && d.Src.Port() != port {
			d = Seal(netip.AddrPortFrom(d.Src.Addr(), port), d.Dst, d.Data[:len(d.Data)-ib.ICRCLen])
		}
		ms[i] = ipv4.Message{Buffers: [][]byte{d.Data}, Addr: net.UDPAddrFromAddrPort(d.Dst), OOB: s.control(d.Src.Addr())}
	}
	return write(s.out, ms)
}

// control returns the control message for a datagram's source address, if the socket
// has none.
func (s *Socket) control(src netip.Addr) []byte {
	switch {
	case !s.from.Addr().IsUnspecified() || !src.IsValid():
		return nil
	case s.v4:
		return (&ipv4.ControlMessage{Src: src.AsSlice()}).Marshal()
	}
	return (&ipv6.ControlMessage{Src: src.AsSlice()}).Marshal()
}

// Close closes the socket.
func (s *Socket) Close() error { return s.conn.Close() }

// Pace sends count datagrams at a rate per second, or as fast as possible if rate is 0,
// and returns the number sent. It stops when ctx ends. craft returns the i-th datagram.
func Pace(ctx context.Context, s Sender, rate, count int, craft func(i int) Datagram) (sent int, err error) {
	var batch []Datagram
	for begun := time.Now(); sent < count && ctx.Err() == nil; {
		n := min(count-sent, 256)
		if rate > 0 {
			n = min(n, int(time.Since(begun).Seconds()*float64(rate))-sent)
		}
		if n <= 0 {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		batch = batch[:0]
		for i := range n {
			batch = append(batch, craft(sent+i))
		}
		if err := s.Send(batch...); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}
