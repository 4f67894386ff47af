//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

func TestSendBatchSegmentsAndCoalesces(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			a, b := pair(t, host, Config{})
			f := openFlow(t, a, b.Local(), 7)
			data := pattern(14*4096 + 100)
			// Three pieces whose boundaries are not those of packets.
			pieces := [][]byte{data[:5000], nil, data[5000:5001], data[5001:]}
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: pieces, Bytes: len(data), Size: 4096, TOS: 0x2a, HopLimit: 7})
			var rx link.Rx
			receive(t, b, &rx)
			if !bytes.Equal(rx.Data, data) || rx.Size != 4096 {
				t.Fatalf("received %d bytes in packets of %d, want the %d sent in packets of 4096", len(rx.Data), rx.Size, len(data))
			}
			if rx.Src != f.Src || rx.Dst != b.Local() || rx.TOS != 0x2a || rx.HopLimit != 7 {
				t.Fatalf("received from %v to %v, TOS %#x, hop limit %d; want %v, %v, 0x2a, 7", rx.Src, rx.Dst, rx.TOS, rx.HopLimit, f.Src, b.Local())
			}
		})
	}
}

func TestSendFullBatchOf128Packets(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 1)
	data := pattern(link.MaxPackets * 64)
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: 64})
	if got := receiveAll(t, b, len(data)); !bytes.Equal(got, data) {
		t.Fatal("received other bytes than were sent")
	}
	if f.Segments != link.MaxPackets {
		t.Logf("the kernel takes only %d segments", f.Segments)
	}
}

func TestSendWithoutSegmentationSendsEveryPacket(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{NoSegmentation: true})
	f := openFlow(t, a, b.Local(), 7)
	if f.Segments != 1 {
		t.Fatalf("flow of %d segments, want 1", f.Segments)
	}
	data := pattern(10*1000 + 1)
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data[:1500], data[1500:1600], data[1600:]}, Bytes: len(data), Size: 1000})
	var rx link.Rx
	for left := data; len(left) > 0; left = left[len(rx.Data):] {
		receive(t, b, &rx)
		if !bytes.HasPrefix(left, rx.Data) || rx.Size != min(1000, len(left)) {
			t.Fatalf("received %d bytes in packets of %d when %d were left, want packets of 1000", len(rx.Data), rx.Size, len(left))
		}
	}
}

func TestSendBatchOf64SegmentKernelSplits(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	f.Segments = oldSegments
	data := pattern(100*200 + 5)
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data[:1], data[1:]}, Bytes: len(data), Size: 200})
	var rx link.Rx
	receive(t, b, &rx)
	if len(rx.Data) != 64*200 || rx.Size != 200 {
		t.Fatalf("first of two batches has %d bytes in packets of %d, want 12800 of 200", len(rx.Data), rx.Size)
	}
	receive(t, b, &rx)
	if len(rx.Data) != 36*200+5 || rx.Size != 200 {
		t.Fatalf("second of two batches has %d bytes in packets of %d, want 7205 of 200", len(rx.Data), rx.Size)
	}
}

// The kernel refuses to segment for a socket without UDP checksums with EINVAL or EIO. This
// stands in for devices and kernels that cannot segment.
func TestSendSegmentationRefusedFallsBackForGood(t *testing.T) {
	for _, packets := range []int{10, 100} {
		a, b := pair(t, "127.0.0.1", Config{})
		f := openFlow(t, a, b.Local(), 7)
		if err := unix.SetsockoptInt(a.flows.find(&f.Flow).end.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
			t.Fatal(err)
		}
		data := pattern(packets * 300)
		for range 2 {
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: 300})
			if f.Segments != 1 {
				t.Fatalf("flow of %d segments after a refusal, want 1", f.Segments)
			}
			if got := receiveAll(t, b, len(data)); !bytes.Equal(got, data) {
				t.Fatal("received other bytes than were sent")
			}
		}
	}
}

func TestSendManyPiecesGathers(t *testing.T) {
	for _, n := range []int{maxPieces, maxPieces + 1, 5000} {
		a, b := pair(t, "127.0.0.1", Config{})
		f := openFlow(t, a, b.Local(), 7)
		data := pattern(n * 7)
		var pieces [][]byte
		for i := range n {
			pieces = append(pieces, data[i*7:i*7+7])
		}
		send(t, a, &link.Tx{Flow: &f.Flow, Pieces: pieces, Bytes: len(data), Size: 4096})
		if got := receiveAll(t, b, len(data)); !bytes.Equal(got, data) {
			t.Fatalf("%d pieces: received other bytes than were sent", n)
		}
		for i := range a.out.iov {
			if a.out.iov[i].Base != nil {
				t.Fatalf("%d pieces: the link keeps the caller's memory in entry %d", n, i)
			}
		}
	}
}

func TestSendToClosedPortReportsRefused(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			a, b := pair(t, host, Config{})
			dst := b.Local()
			f := openFlow(t, a, dst, 7)
			_ = b.Close()
			tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64}
			send(t, a, tx)
			err := a.Send(tx)
			var e *SendError
			if !errors.Is(err, unix.ECONNREFUSED) || !errors.As(err, &e) || !e.Earlier {
				t.Fatalf("send after an ICMP error: %v, want ECONNREFUSED of an earlier batch", err)
			}
			// The error was caused by that send, which itself succeeded. A peer that exists
			// now gets what is sent.
			b, err = Open(dst, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := a.Send(tx); !errors.Is(err, unix.ECONNREFUSED) {
				t.Fatalf("second send after an ICMP error: %v, want ECONNREFUSED", err)
			}
			send(t, a, tx)
			if got := receiveAll(t, b, 128); len(got) != 128 {
				t.Fatalf("received %d bytes, want 128", len(got))
			}
		})
	}
}

func TestSendOverMTURefused(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	data := make([]byte, maxDatagram+1)
	if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)}); !errors.Is(err, ErrBatch) {
		t.Fatalf("send of %d bytes: %v, want ErrBatch", len(data), err)
	}
	if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{data[:1290]}, Bytes: 1290, Size: 10}); !errors.Is(err, ErrBatch) {
		t.Fatalf("send of 129 packets: %v, want ErrBatch", err)
	}
	if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{data[:60000], data[:60000]}, Bytes: 1, Size: 1}); !errors.Is(err, ErrBatch) {
		t.Fatalf("send of pieces longer than said: %v, want ErrBatch", err)
	}
}

func TestFlowSocketReceivesNothing(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	back := openFlow(t, b, f.Src, 7)
	send(t, b, &link.Tx{Flow: &back.Flow, Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64})
	p := []unix.PollFd{{Fd: int32(a.flows.find(&f.Flow).end.fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 20); n != 0 || err != nil {
		t.Fatalf("poll of a flow's socket: %d %v, want nothing to receive", n, err)
	}
}

func TestOpenTakenAddressNamesIt(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	_, err := Open(a.Local(), Config{})
	want := fmt.Sprintf("address %v already in use by another device; ", a.Local())
	if !errors.Is(err, unix.EADDRINUSE) || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
		t.Fatalf("second open: %v, want %q", err, want)
	}
}

func TestLinkCloseLeavesNoFile(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("no /proc/self/fd: %v", err)
		}
		return len(d)
	}
	before := count()
	for range 20 {
		l, err := Open(netip.MustParseAddrPort("127.0.0.1:0"), Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			f := openFlow(t, l, netip.MustParseAddrPort("127.0.0.1:4791"), uint32(i))
			if i&1 == 0 {
				l.CloseFlow(&f.Flow)
			}
		}
		_ = l.Join(netip.MustParseAddr("239.1.2.3"))
		_ = l.Join(netip.MustParseAddr("239.1.2.4"))
		_ = l.Leave(netip.MustParseAddr("239.1.2.4"))
		_, _ = Open(l.Local(), Config{})                               // fails after its socket was made
		_, _ = Open(netip.MustParseAddrPort("192.0.2.77:0"), Config{}) // fails earlier
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after != before {
		t.Fatalf("%d files are open, %d were before", after, before)
	}
}

func TestReceiveBufferIsUsable(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{ReceiveBuffer: 256 << 10, NoSegmentation: true})
	f := openFlow(t, a, b.Local(), 7)
	want := b.Capabilities().ReceiveBuffer / 4200 * 4200
	for range want / 4200 {
		send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{make([]byte, 4200)}, Bytes: 4200, Size: 4200})
	}
	if got := receiveAll(t, b, want); len(got) != want {
		t.Fatalf("received %d of %d bytes that the buffer should hold", len(got), want)
	}
}

func TestOpenOnLinkLocalWithZone(t *testing.T) {
	ifaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifaces {
		addrs, _ := i.Addrs()
		for _, x := range addrs {
			a, ok := netip.AddrFromSlice(x.(*net.IPNet).IP)
			if !ok || !a.Is6() || a.Is4In6() || !a.IsLinkLocalUnicast() {
				continue
			}
			l, err := Open(netip.AddrPortFrom(a.WithZone(i.Name), 0), Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			f := openFlow(t, l, netip.AddrPortFrom(a, l.Local().Port()), 7)
			send(t, l, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{{1, 2, 3, 4}}, Bytes: 4, Size: 4})
			var rx link.Rx
			receive(t, l, &rx)
			if rx.Src != f.Src || rx.Dst.Addr() != a || rx.Src.Addr() != a {
				t.Fatalf("received from %v to %v, want %v to %v without zones", rx.Src, rx.Dst, f.Src, a)
			}
			return
		}
	}
	t.Skip("no interface has a link-local IPv6 address")
}

func TestWaitEndsByPacketWakeAndTime(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	start := time.Now()
	if err := b.Wait(20 * time.Millisecond); err != nil || time.Since(start) < 20*time.Millisecond {
		t.Fatalf("wait of 20 ms: %v after %v", err, time.Since(start))
	}
	f := openFlow(t, a, b.Local(), 7)
	var empty link.Rx
	if ok, err := b.Receive(&empty); ok || err != nil {
		t.Fatalf("received %d bytes, %v, from a flow on which nothing was sent", len(empty.Data), err)
	}
	b.Wake()
	b.Wake()
	if err := b.Wait(-1); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if err := b.Wait(20 * time.Millisecond); err != nil || time.Since(start) < 20*time.Millisecond {
		t.Fatalf("two wakes ended two waits: %v after %v", err, time.Since(start))
	}
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{{1}}, Bytes: 1, Size: 1})
	if err := b.Wait(-1); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		b.Wake()
	}()
	var rx link.Rx
	receive(t, b, &rx)
	if err := b.Wait(-1); err != nil {
		t.Fatal(err)
	}
}
