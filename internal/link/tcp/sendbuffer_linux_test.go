package tcp

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection over a long path gets the largest buffer to send from that the system permits, of which a part may wait to
// be sent. Others keep the system's, which grows by itself.
func TestLongPathsGetLargerSendBuffers(t *testing.T) {
	want := longBuffer()
	if want == 0 {
		t.Skip("SKIPPED: net.core.wmem_max permits no larger buffer than tcp_wmem")
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for trip, wide := range map[time.Duration]bool{0: false, time.Millisecond: false, 20 * time.Millisecond: true} {
		c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		option := func(fd, level, name int) int {
			n, err := unix.GetsockoptInt(fd, level, name)
			if err != nil {
				t.Error(err)
			}
			return n
		}
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		widen(c, &Config{}) // the loopback is short
		if err := raw.Control(func(fd uintptr) {
			before := option(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
			if before == 2*want {
				t.Errorf("the buffer of a connection on the loopback is %d", before)
			}
			widenFor(int(fd), trip)
			after, unsent := option(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF), option(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
			if wide && (after != 2*want || unsent != maxUnsent) || !wide && (after != before || unsent == maxUnsent) {
				t.Errorf("round trip %v: the buffer was %d and is %d, with %d unsent; the largest is %d", trip, before, after, unsent, 2*want)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
