//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/internal/link"
)

// The ICRC covers the IPv4 identification, so the batches that leave a host must have the
// values that Flow.Segments promises. A TUN device shows packets as on the wire. It is in a
// separate network namespace, in which this test runs again.
func TestSegmentsHaveKnownIdentification(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	const mtu = 9000
	tun := openTUN(t, netip.MustParseAddr("10.9.9.1"), mtu)
	for _, c := range []struct {
		name     string
		cfg      Config
		segments int // of the flow, as after a fall-back; 0 leaves it
		packets  int
		size     int
		counts   bool // the flow has its own connected socket
	}{
		{"batch of 15", Config{}, 0, 15, 4096, true},
		{"batch of 128", Config{}, 0, 128, 64, true},
		{"single packets", Config{}, 0, 1, 64, true},
		{"from the receiving socket", Config{MaxFlowSockets: -1}, 0, 15, 4096, false},
		{"batch of 100 by a kernel that takes 64", Config{}, 64, 100, 64, true},
		{"no segmentation", Config{NoSegmentation: true}, 0, 15, 4096, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Open(netip.MustParseAddrPort("10.9.9.1:4791"), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			f := openFlow(t, l, netip.MustParseAddrPort("10.9.9.2:4791"), 7)
			if f.Counts != c.counts {
				t.Fatalf("identifications count: %v", f.Counts)
			}
			if c.segments != 0 {
				f.Segments = c.segments
			}
			if c.counts {
				if p := tun.packet(t); len(p) != headersLen {
					t.Fatalf("the first datagram has %d bytes, want an empty one", len(p)-headersLen)
				}
			}
			data := pattern(c.packets * c.size)
			for round := range 6 {
				if round == 4 && c.counts { // one send fails, and is not numbered
					if err := l.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(mtu)}, Bytes: mtu, Size: mtu}); err == nil || f.Counts {
						t.Fatalf("a packet that is too long: %v, identifications count: %v", err, f.Counts)
					}
				}
				want := *f
				send(t, l, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: c.size})
				for i := range c.packets {
					p := tun.packet(t)
					if len(p) != 28+c.size {
						t.Fatalf("packet %d has %d bytes, want %d", i, len(p), 28+c.size)
					}
					if id := binary.BigEndian.Uint16(p[4:]); id != want.Identification(i) {
						t.Fatalf("round %d: packet %d has identification %d, want %d", round, i, id, want.Identification(i))
					}
					if flags := binary.BigEndian.Uint16(p[6:]); flags != 0x4000 {
						t.Fatalf("packet %d has flags and fragment offset %#04x, want DF alone (0x4000)", i, flags)
					}
				}
			}
		})
	}
	// A nearly stopped queue discipline holds packets, which count against the socket's
	// buffer. One with a small queue drops them.
	for _, c := range []struct {
		name  string
		limit uint32
		want  unix.Errno
	}{
		{"socket buffer full", 1 << 20, unix.EAGAIN},
		{"interface queue full", 5000, unix.ENOBUFS},
	} {
		t.Run(c.name, func(t *testing.T) {
			release := throttle(t, c.limit)
			l, err := Open(netip.MustParseAddrPort("10.9.9.1:4791"), Config{SendBuffer: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			f := openFlow(t, l, netip.MustParseAddrPort("10.9.9.2:4791"), 7)
			tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(4000)}, Bytes: 4000, Size: 4000}
			start := time.Now()
			sent := 0
			for err = l.Send(tx); err == nil && sent < 400; err = l.Send(tx) {
				sent++
				start = time.Now()
			}
			if took := time.Since(start); !errors.Is(err, c.want) || took < sendTimeout || took > 10*time.Second {
				t.Fatalf("after %d packets that nobody takes: %v within %v, want %v after about %v", sent, err, took, c.want, sendTimeout)
			}
			release()
			send(t, l, tx)
			tun.packet(t)
		})
	}
	t.Run("packet over the MTU", func(t *testing.T) {
		l, err := Open(netip.MustParseAddrPort("10.9.9.1:4791"), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f := openFlow(t, l, netip.MustParseAddrPort("10.9.9.2:4791"), 7)
		for _, n := range []int{mtu, 3 * mtu} {
			err := l.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{make([]byte, n)}, Bytes: n, Size: mtu})
			if !errors.Is(err, unix.EMSGSIZE) {
				t.Fatalf("send of %d bytes in packets of %d: %v, want EMSGSIZE", n, mtu, err)
			}
			if f.Segments != link.MaxPackets {
				t.Fatalf("flow of %d segments after a packet over the MTU, want %d", f.Segments, link.MaxPackets)
			}
		}
	})
}

// throttle slows the TUN device down to almost nothing, with a queue of limit bytes, until
// release is called.
func throttle(t *testing.T, limit uint32) (release func()) {
	t.Helper()
	dev, err := netlink.LinkByName("tun0")
	if err != nil {
		t.Fatal(err)
	}
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_ROOT},
		Rate:       1000, Buffer: 8e9 / 64, Limit: limit, // 8000 bytes at once, as time in ticks of 64 ns
	}
	if err := netlink.QdiscAdd(q); err != nil {
		t.Skipf("no token bucket filter (sch_tbf): %v", err)
	}
	return func() {
		if err := netlink.QdiscDel(q); err != nil {
			t.Fatal(err)
		}
	}
}

type tunDevice struct{ fd int }

// openTUN makes a TUN device without any offload, with an address of a /24.
func openTUN(t *testing.T, addr netip.Addr, mtu uint32) *tunDevice {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("/dev/net/tun: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const name = "tun0"
	request := func(set func(*unix.Ifreq)) *unix.Ifreq {
		r, err := unix.NewIfreq(name)
		must(err)
		set(r)
		return r
	}
	must(unix.IoctlIfreq(fd, unix.TUNSETIFF, request(func(r *unix.Ifreq) { r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI) })))
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(err)
	defer unix.Close(s)
	a := addr.As4()
	must(unix.IoctlIfreq(s, unix.SIOCSIFADDR, request(func(r *unix.Ifreq) { must(r.SetInet4Addr(a[:])) })))
	must(unix.IoctlIfreq(s, unix.SIOCSIFNETMASK, request(func(r *unix.Ifreq) { must(r.SetInet4Addr([]byte{255, 255, 255, 0})) })))
	must(unix.IoctlIfreq(s, unix.SIOCSIFMTU, request(func(r *unix.Ifreq) { r.SetUint32(mtu) })))
	must(unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request(func(r *unix.Ifreq) { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING) })))
	return &tunDevice{fd}
}

// packet returns the next IPv4 UDP packet that the device sends.
func (d *tunDevice) packet(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, 1<<16)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Read(d.fd, b)
		if err == unix.EAGAIN {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}, 10)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= 28 && b[0] == 0x45 && b[9] == unix.IPPROTO_UDP {
			return b[:n]
		}
	}
	t.Fatal("no packet left within 10 s")
	return nil
}
