//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// The receive buffer grows while packets do not fit in, up to a limit, and shrinks when nothing comes. One whose size the
// program has chosen stays.
func TestReceiveBufferFollowsNeed(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		const size, most, burst, bursts = 16 << 10, 64 << 10, 200, 600
		a, b := pair(t, "127.0.0.1", Config{})
		b.buffer.resize(b.rx.fd, size)
		b.buffer.fixed = fixed
		b.buffer.init(b.rx.fd, size)
		b.buffer.most = min(b.buffer.most, most) // which every system grants
		granted := func() int {
			n, err := unix.GetsockoptInt(b.rx.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		first := granted()
		f := openFlow(t, a, b.Local(), 1)
		data := pattern(1000)
		var rx link.Rx
		for range bursts {
			for range burst {
				send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)})
			}
			for ok := true; ok; {
				var err error
				if ok, err = b.Receive(&rx); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := first * most / size
		if fixed {
			want = first
		}
		if n := granted(); n != want {
			t.Errorf("fixed %v: %d bytes after packets were dropped, %d at first, expected %d", fixed, n, first, want)
		}
		if fixed {
			continue
		}
		pause := func() int {
			if err := b.Wait(10 * time.Second); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Receive(&rx); err != nil {
				t.Fatal(err)
			}
			return granted()
		}
		if b.buffer.keep < 8*600*time.Millisecond {
			t.Errorf("the buffer is kept for %v: a few round trips over a satellite are longer", b.buffer.keep)
		}
		b.CloseFlow(&openFlow(t, b, a.Local(), 1).Flow)
		if n := pause(); n != want || b.flows.sockets != 0 {
			t.Errorf("%d bytes after a pause in which %d flows without users were kept, %d before", n, b.flows.sockets, want)
		}
		b.buffer.keep = time.Millisecond
		if n := pause(); n != first {
			t.Errorf("%d bytes after a longer pause, %d at first", n, first)
		}
	}
}

// The receive buffers of the lanes of a device grow up to one limit.
func TestReceiveBuffersOfLanesShareALimit(t *testing.T) {
	links, err := OpenLanes(netip.MustParseAddrPort("127.0.0.1:0"), Config{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, l := range links {
		if l.buffer.fixed {
			t.Error("a size that no program has chosen is fixed")
		}
		all += l.buffer.most
	}
	if all > mostGrown || all <= len(links)*defaultBuffer {
		t.Errorf("%d bytes of all lanes", all)
	}
	if err := closeAll(links); err != nil {
		t.Error(err)
	}
}

// The receive buffer does not grow further for packets that were dropped before it grew.
func TestReceiveBufferGrowsForNewDropsOnly(t *testing.T) {
	const size, most, burst = 16 << 10, 1 << 20, 200
	a, b := pair(t, "127.0.0.1", Config{})
	b.buffer.resize(b.rx.fd, size)
	b.buffer.init(b.rx.fd, size)
	b.buffer.most = most
	f := openFlow(t, a, b.Local(), 1)
	data := pattern(1000)
	tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: len(data)}
	for range burst {
		send(t, a, tx)
	}
	var rx link.Rx
	for batches := 0; batches < 4<<8; { // the number of dropped packets is looked at after each 1<<8
		ok, err := b.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			batches++
		} else {
			send(t, a, tx)
		}
	}
	if b.buffer.size != 2*size {
		t.Errorf("the buffer of %d bytes became one of %d after one burst, expected %d", size, b.buffer.size, 2*size)
	}
}
