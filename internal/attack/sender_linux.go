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
	// Send sends datagrams in as few system calls as it can. It returns when
	// the system has all of them: whether they arrive is another matter.
	Send(ds ...Datagram) error
	Close() error
}

// batchSize is how many datagrams one system call sends at most: the system's
// bound.
const batchSize = 1024

// A batcher sends messages, many at a time: ipv4.PacketConn and ipv6.PacketConn.
type batcher interface {
	WriteBatch(ms []ipv4.Message, flags int) (int, error)
}

func batcherOf(c net.PacketConn, v4 bool) batcher {
	if v4 {
		return ipv4.NewPacketConn(c)
	}
	return ipv6.NewPacketConn(c)
}

// write sends all messages. It tries again when the system's buffers are full. It
// ignores errors that an ICMP message about an earlier datagram caused.
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

// NewSocket opens a socket that sends from an address of this host; from port 0
// the system chooses one. With the unspecified address each datagram leaves from
// the address that it claims, if it is one of this host's, as all of 127.0.0.0/8
// are. All leave from the socket's port, whatever port they claim.
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

// Addr is the address and port that datagrams leave from.
func (s *Socket) Addr() netip.AddrPort { return s.from }

// MulticastByLoopback makes datagrams to IPv4 groups leave by the loopback interface.
func (s *Socket) MulticastByLoopback() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	return ipv4.NewPacketConn(s.conn).SetMulticastInterface(lo)
}

// Send sends datagrams. Such a socket's packets have the identification 0.
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

// control names the source of a datagram where the socket has none.
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

// Pace sends count datagrams at a rate of so many a second, or as fast as it can
// where rate is 0, until ctx ends, and returns how many it sent. craft makes the
// i-th.
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
