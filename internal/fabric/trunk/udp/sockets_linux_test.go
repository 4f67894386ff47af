package udp

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns sockets that are each other's peer 0.
func pair(t *testing.T) (a, b *Sockets) {
	t.Helper()
	at, err := Open(netip.MustParseAddrPort("127.0.0.1:0"), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")})
	if err != nil {
		t.Fatal(err)
	}
	port := func(s *Sockets) netip.AddrPort {
		sa, err := unix.Getsockname(s.fds[0])
		if err != nil {
			t.Fatal(err)
		}
		in := sa.(*unix.SockaddrInet4)
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
	}
	first := port(at)
	b, err = Open(netip.MustParseAddrPort("127.0.0.1:0"), []netip.AddrPort{first})
	if err != nil {
		t.Fatal(err)
	}
	second := port(b)
	if err := unix.Connect(at.fds[0], sockaddr(second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		at.Close()
		b.Close()
	})
	return at, b
}

// receive waits for a packet.
func receive(t *testing.T, s *Sockets) []byte {
	t.Helper()
	var b [2000]byte
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if n, ok := s.Receive(0, b[:]); ok {
			return b[:n]
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, 1000)
	}
	t.Fatal("no packet")
	return nil
}

// Packets of all lengths arrive as they were sent, in order, whatever leaves together.
func TestPacketsKeepTheirBounds(t *testing.T) {
	for _, plain := range []bool{false, true} {
		a, b := pair(t)
		a.out.plain = plain
		sizes := []int{1, 1400, 1400, 1400, 20, 1400, 1399, 1400, 44, 44, 44, 1400}
		for range 100 {
			sizes = append(sizes, 1400)
		}
		for i, n := range sizes {
			a.Send(0, bytes.Repeat([]byte{byte(i)}, n))
		}
		a.Flush()
		a.Flush() // has nothing
		for i, n := range sizes {
			if got := receive(t, b); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("packet %d of %d bytes: %d bytes", i, n, len(got))
			}
		}
		if n, ok := b.Receive(0, make([]byte, 10)); ok {
			t.Errorf("another packet, of %d bytes", n)
		}
	}
}

// A packet that is longer than the buffer fills it, so that the receiver sees that it is too long.
func TestLongPacketsAreCut(t *testing.T) {
	a, b := pair(t)
	for range 3 {
		a.Send(0, make([]byte, 1900))
	}
	a.Flush()
	var buf [1401]byte
	for got := 0; got < 3; {
		n, ok := b.Receive(0, buf[:])
		if !ok {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 1000)
			continue
		}
		if got++; n != len(buf) {
			t.Errorf("%d bytes", n)
		}
	}
}

// Many packets take few calls if the system can segment, and none is left behind.
func TestManyPacketsLeaveTogether(t *testing.T) {
	a, b := pair(t)
	packet := make([]byte, 1400)
	for range mostSegments - 20 {
		a.Send(0, packet)
	}
	if a.out.count != mostSegments-20 {
		t.Fatalf("%d packets wait", a.out.count)
	}
	for range 20 + 1 {
		a.Send(0, packet)
	}
	if a.out.count >= mostSegments-20 {
		t.Errorf("%d packets wait, more than one call takes", a.out.count)
	}
	a.Flush()
	for range mostSegments + 1 {
		receive(t, b)
	}
}
