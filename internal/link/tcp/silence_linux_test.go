package tcp

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/internal/link"
)

// A silent peer host ends the stream, whether data is in flight to it or not.
func TestSilentPeerHostEndsTheStream(t *testing.T) {
	for name, writes := range map[string]bool{"data under way": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			hosttest.InNamespace(t, func(t *testing.T) {
				lo, err := netlink.LinkByName("lo")
				hosttest.Must(t, err)
				hosttest.Must(t, netlink.LinkSetUp(lo))
				k := opener(func(a netip.Addr, _ Config) (link.Streams, error) {
					return Open(a, Config{PeerTimeout: 2 * time.Second})
				})
				a, b := k.open(t, "127.0.0.1"), k.open(t, "127.0.0.2")
				x, _, ox, _ := streams(a, b)
				hosttest.Must(t, netlink.LinkSetDown(lo))
				if writes {
					if _, err := x.Write([][]byte{[]byte("is anybody there?")}); err != nil {
						hosttest.Must(t, err)
					}
				}
				start := time.Now()
				a.until(func() bool { return ox.hangup })
				_, err = x.Read([][]byte{make([]byte, 1)})
				// The system reports an earlier network error instead of the timeout.
				if !errors.Is(err, syscall.ETIMEDOUT) && !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
					t.Errorf("found %v", err)
				}
				if d := time.Since(start); d < time.Second {
					t.Errorf("ended after %v", d)
				}
			})
		})
	}
}

// Every kind of link sets the same socket options.
func TestStreamsTellTheSystemOfPeerTimeout(t *testing.T) {
	kinds(t, func(t *testing.T, k opener) {
		for _, c := range []struct {
			timeout time.Duration
			want    [4]int // SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT
		}{
			{0, [4]int{1, 15, 5, 30_000}},
			{6 * time.Second, [4]int{1, 3, 1, 6000}},
		} {
			la, err := k(netip.MustParseAddr("127.13.2.8"), Config{PeerTimeout: c.timeout})
			if err != nil {
				t.Fatal(err)
			}
			lb, err := k(netip.MustParseAddr("127.13.2.9"), Config{PeerTimeout: c.timeout})
			if err != nil {
				t.Fatal(err)
			}
			x, y, _, _ := streams(end{t, la}, end{t, lb})
			for _, s := range []link.Stream{x, y} {
				if _, ok := s.(*relayedStream); ok {
					continue // the process that relays it sets the options, as with TLS
				}
				if got := silenceOf(t, s); got != c.want {
					t.Errorf("%v: found %v", c.timeout, got)
				}
			}
			_, _ = la.Close(), lb.Close()
		}
	})
}

func silenceOf(t *testing.T, s link.Stream) (got [4]int) {
	t.Helper()
	read := func(fd int) {
		for i, o := range [...][2]int{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
		} {
			n, err := unix.GetsockoptInt(fd, o[0], o[1])
			if err != nil {
				t.Error(err)
			}
			got[i] = n
		}
	}
	if e, ok := s.(*stream); ok {
		read(e.fd)
		return got
	}
	raw, err := s.(*conn).raw.(systemConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { read(int(fd)) }); err != nil {
		t.Fatal(err)
	}
	return got
}
