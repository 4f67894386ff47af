//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

func TestAskReportsQueuedBytes(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b := pair(t, host, Config{ReceiveBuffer: 1 << 20})
		needSplice(t, a)
		f := openFlow(t, a, b.Local(), 1)
		d := openDiagnosis(a.rx.fd)
		defer d.close()
		var sole uint64
		ask := func() waiting {
			t.Helper()
			w, ok := d.ask(f.Src, f.Dst, &sole)
			if !ok || w.sockets != 1 || sole == 0 {
				t.Fatalf("%s: %+v, %v, socket %d", host, w, ok, sole)
			}
			return w
		}
		receiveUpTo(t, b, f, 1) // sent by openFlow
		if w := ask(); w.total != 0 || w.drops != 0 {
			t.Errorf("%s: %+v waits before the first batch", host, w)
		}
		tx := numbered(f, 15, 4112, 2, 1)
		for range 4 {
			send(t, a, tx)
		}
		if w := ask(); w.total < 4*tx.Bytes || w.largest != w.total || w.drops != 0 {
			t.Errorf("%s: %+v waits after %d bytes", host, w, 4*tx.Bytes)
		}
		for range 100 {
			send(t, a, tx)
		}
		if w := ask(); w.drops == 0 {
			t.Errorf("%s: %+v waits after more than fits", host, w)
		}
		for rx := (link.Rx{}); ; {
			if ok, err := b.Receive(&rx); err != nil || !ok {
				break
			}
		}
		if w := ask(); w.total != 0 {
			t.Errorf("%s: %+v waits after all was received", host, w)
		}
	}
}

func TestAskAddsSocketsOfAnAddress(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	needSplice(t, a)
	lanes, err := OpenLanes(netip.MustParseAddrPort("127.0.0.1:0"), Config{}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lanes)
	f := openFlow(t, a, lanes[0].Local(), 1)
	tx := numbered(f, 15, 4112, 256, 0)
	send(t, a, tx)
	send(t, a, numbered(f, 15, 4112, 257, 0))
	d := openDiagnosis(a.rx.fd)
	defer d.close()
	var sole uint64
	w, ok := d.ask(f.Src, f.Dst, &sole)
	if !ok || w.sockets != 3 || w.total < 2*tx.Bytes || w.largest < tx.Bytes || w.largest >= 2*tx.Bytes || sole != 0 {
		t.Errorf("%+v, %v, socket %d; expected two of three sockets with %d bytes each", w, ok, sole, tx.Bytes)
	}
	if n := testing.AllocsPerRun(5, func() { d.ask(f.Src, f.Dst, &sole) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Another socket, or several, at the address must be noticed although there was only one
// before.
func TestAskNoticesNewSocketAtAddress(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	needSplice(t, a)
	f := openFlow(t, a, b.Local(), 1)
	d := openDiagnosis(a.rx.fd)
	defer d.close()
	var sole uint64
	if w, ok := d.ask(f.Src, f.Dst, &sole); !ok || w.sockets != 1 {
		t.Fatalf("%+v, %v", w, ok)
	}
	at := b.Local()
	_ = b.Close()
	if w, ok := d.ask(f.Src, f.Dst, &sole); ok || sole != 0 {
		t.Errorf("%+v of a closed socket, remembered as %d", w, sole)
	}
	sole = 1 // of no socket
	lanes, err := OpenLanes(at, Config{}, 2)
	if err != nil {
		t.Skipf("the port was taken: %v", err)
	}
	defer closeAll(lanes)
	if w, ok := d.ask(f.Src, f.Dst, &sole); !ok || w.sockets != 2 || sole != 0 {
		t.Errorf("%+v, %v, socket %d; expected two sockets", w, ok, sole)
	}
}

// The kernel's own sockets are bound to all addresses, and queue nothing.
func TestAskLeavesOutSocketOfAllAddresses(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	needSplice(t, a)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		t.Fatal(err)
	}
	to, err := localOf(fd, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	d := openDiagnosis(a.rx.fd)
	defer d.close()
	if w, ok := d.ask(a.Local(), to, new(uint64)); ok {
		t.Errorf("%+v waits at a socket of all addresses", w)
	}
}

// A truncated answer must not report that less is queued.
func TestCutAnswerIsRefused(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	needSplice(t, a)
	d := openDiagnosis(a.rx.fd)
	defer d.close()
	if !d.send(a.Local(), b.Local(), 0) {
		t.Fatal("no request")
	}
	n, err := unix.Read(d.fd, d.buf[:])
	if err != nil {
		t.Fatal(err)
	}
	var w waiting
	if end, ok := w.add(d.buf[:n], b.Local()); w.sockets != 1 || end && !ok {
		t.Fatalf("%+v, %v, %v of a whole answer", w, end, ok)
	}
	for i := range n {
		var w waiting
		if end, ok := w.add(d.buf[:i:i], b.Local()); end && ok {
			t.Errorf("an answer of %d bytes is whole when cut to %d", n, i)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte{16, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, at := range []string{"127.0.0.1:4791", "[::1]:4791"} {
			var w waiting
			if w.add(b, netip.MustParseAddrPort(at)); w.largest > w.total || w.sockets == 0 && w.total != 0 {
				t.Errorf("%+v", w)
			}
		}
	})
}
