//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// An unchecked is a peer whose datagrams have no UDP checksum, as those of Soft RoCE.
type unchecked struct {
	testing.TB
	fd   int
	src  netip.AddrPort
	dst  unix.Sockaddr
	tos  uint8
	seed byte
	sent [][]byte
}

func newUnchecked(t testing.TB, to *Link) *unchecked {
	t.Helper()
	h := host{cfg: Config{}.withDefaults(), local: netip.AddrPortFrom(to.Local().Addr(), 0)}
	e, err := h.newEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(e.fd) })
	if err := bind(e.fd, h.local, 0); err != nil {
		t.Fatal(err)
	}
	if h.local.Addr().Is4() {
		err = unix.SetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
	} else {
		err = unix.SetsockoptInt(e.fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1)
	}
	src, err2 := localOf(e.fd, h.local)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return &unchecked{TB: t, fd: e.fd, src: src, dst: sockaddr(to.Local(), 0)}
}

// send sends packets of the given lengths.
func (u *unchecked) send(lengths ...int) {
	u.Helper()
	for _, n := range lengths {
		u.seed++
		p := bytes.Repeat([]byte{u.seed}, n)
		copy(p, pattern(n))
		if err := unix.Sendto(u.fd, p, 0, u.dst); err != nil {
			u.Fatal(err)
		}
		if n > 0 {
			u.sent = append(u.sent, p)
		}
	}
}

// mark sets the type of service of what follows.
func (u *unchecked) mark(tos uint8) {
	u.Helper()
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if u.src.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	if err := unix.SetsockoptInt(u.fd, level, option, int(tos)); err != nil {
		u.Fatal(err)
	}
	u.tos = tos
}

// packets receives everything, and returns the packets of each batch.
func packets(t testing.TB, l *Link, check func(*link.Rx)) (batches [][][]byte) {
	t.Helper()
	for {
		rx := link.Rx{Sparse: true}
		ok, err := l.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return batches
		}
		check(&rx)
		if rx.Size < 1 || len(rx.Data) < rx.Size {
			t.Fatalf("a batch of %d bytes in packets of %d", len(rx.Data), rx.Size)
		}
		batches = append(batches, slices.Collect(slices.Chunk(bytes.Clone(rx.Data), rx.Size)))
	}
}

// expect compares packets with those that were sent, and forgets these.
func (u *unchecked) expect(got [][]byte) {
	u.Helper()
	if !slices.EqualFunc(got, u.sent, bytes.Equal) {
		u.Fatalf("received %d packets, expected %d, or others", len(got), len(u.sent))
	}
	u.sent = nil
}

func lengthsOf(batches [][][]byte) string {
	s := ""
	for _, b := range batches {
		s += fmt.Sprintf("%dx%d+%d ", len(b), len(b[0]), len(b[len(b)-1]))
	}
	return s
}

// repeat returns n lengths.
func repeat(n, length int) []int { return slices.Repeat([]int{length}, n) }

// The responses of a READ of 128 KiB from Soft RoCE: the first and the last have an AETH.
func TestPacketsWithoutChecksumsAreBatches(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			_, l := pair(t, host, Config{})
			u := newUnchecked(t, l)
			u.mark(0x2a)
			for range 3 {
				u.send(4116)
				u.send(repeat(30, 4112)...)
				u.send(4116)
				got := packets(t, l, func(rx *link.Rx) {
					if rx.Src != u.src || rx.Dst != l.Local() || rx.TOS != u.tos || rx.HopLimit == 0 {
						t.Fatalf("from %v to %v, TOS %#x, hop limit %d", rx.Src, rx.Dst, rx.TOS, rx.HopLimit)
					}
				})
				if len(got) > 8 {
					t.Errorf("received %d batches, expected few: %s", len(got), lengthsOf(got))
				}
				u.expect(slices.Concat(got...))
			}
		})
	}
}

// A message of two packets, such as a command of NVMe with 4 KiB of data, is a batch.
func TestShorterPacketEndsABatch(t *testing.T) {
	_, l := pair(t, "127.0.0.1", Config{})
	u := newUnchecked(t, l)
	u.send(slices.Repeat([]int{4112, 80}, 10)...)
	got := packets(t, l, func(*link.Rx) {})
	if s := lengthsOf(got[len(got)-4:]); s != "2x4112+80 2x4112+80 2x4112+80 2x4112+80 " {
		t.Errorf("the last batches are %s", s)
	}
	u.expect(slices.Concat(got...))
}

func TestBatchHasOneTypeOfService(t *testing.T) {
	_, l := pair(t, "127.0.0.1", Config{})
	u := newUnchecked(t, l)
	u.send(repeat(4, 1000)...)
	for i := range 5 {
		u.mark(uint8(i) << 3)
		u.send(repeat(2, 1000)...)
	}
	var tos []uint8
	got := packets(t, l, func(rx *link.Rx) { tos = append(tos, rx.TOS) })
	if tail := tos[len(tos)-4:]; !slices.Equal(tail, []uint8{8, 16, 24, 32}) {
		t.Errorf("batches of types of service %v", tos)
	}
	u.expect(slices.Concat(got...))
}

// Batches that the kernel has joined arrive whole between packets that it has not joined.
func TestJoinedBatchBetweenOtherPackets(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			a, l := pair(t, host, Config{})
			f := openFlow(t, a, l.Local(), 7)
			u := newUnchecked(t, l)
			for round := range 4 {
				joined := pattern(14*4096 + 100 + round)
				u.send(repeat(4, 64<<round)...)
				send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{joined}, Bytes: len(joined), Size: 4096})
				u.send(repeat(20, 64<<round)...)
				whole := 0
				var rest [][]byte
				for _, b := range packets(t, l, func(*link.Rx) {}) {
					if len(b) == 15 && bytes.Equal(slices.Concat(b...), joined) {
						whole++
						continue
					}
					rest = append(rest, b...)
				}
				if whole != 1 {
					t.Errorf("round %d: the joined batch arrived %d times", round, whole)
				}
				u.expect(rest)
			}
		})
	}
}

// Whatever arrives, in any order: nothing is lost, repeated or changed.
func TestAnyPacketsWithoutChecksums(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		_, l := pair(t, "127.0.0.1", Config{})
		peers := []*unchecked{newUnchecked(t, l), newUnchecked(t, l)}
		for range 20 {
			length := 1 + random.IntN(9000)
			for range random.IntN(40) {
				u := peers[min(random.IntN(8), 1)]
				switch random.IntN(8) {
				case 0:
					length = 1 + random.IntN(9000)
				case 1:
					u.mark(uint8(random.IntN(4) << 2))
				case 2:
					u.send(0)
				}
				u.send(length)
			}
			got := map[netip.AddrPort][][]byte{}
			from := netip.AddrPort{}
			for _, b := range packets(t, l, func(rx *link.Rx) {
				from = rx.Src
				got[from] = append(got[from], slices.Collect(slices.Chunk(bytes.Clone(rx.Data), rx.Size))...)
			}) {
				_ = b
			}
			for _, u := range peers {
				u.expect(got[u.src])
			}
		}
	}
}

// The socket is empty when packets have been received that were not delivered.
func TestWaitEndsForPacketsNotDelivered(t *testing.T) {
	_, l := pair(t, "127.0.0.1", Config{})
	u := newUnchecked(t, l)
	u.send(repeat(multiAfter, 100)...)
	u.send(100, 200, 300)
	var rx link.Rx
	for range multiAfter + 1 {
		receive(t, l, &rx)
	}
	if !l.in.multi.waits() {
		t.Fatal("each packet was received by itself")
	}
	began := time.Now()
	for range 3 {
		if err := l.Wait(time.Minute); err != nil || time.Since(began) > 30*time.Second {
			t.Fatalf("waited for %v: %v", time.Since(began), err)
		}
	}
	packets(t, l, func(*link.Rx) {})
}

// A goroutine that sleeps already is woken when another one leaves packets to it.
func TestSleeperIsWokenForPacketsNotDelivered(t *testing.T) {
	_, l := pair(t, "127.0.0.1", Config{})
	u := newUnchecked(t, l)
	for range 100 {
		u.send(repeat(multiAfter, 100)...)
		u.send(100, 200, 300)
		woken := make(chan error, 1)
		go func() { woken <- l.Wait(time.Minute) }()
		for rx := (link.Rx{}); !l.in.multi.waits(); {
			receive(t, l, &rx)
		}
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		packets(t, l, func(*link.Rx) {})
	}
}

func TestPacketsHandedOverAreNoBatch(t *testing.T) {
	_, s := openSlots(t, "127.0.0.1", 1, 256)
	first, _ := takeWith(t, s, Config{Key: s.Key()})
	second, _ := takeWith(t, s, Config{Key: s.Key()})
	peer := netip.MustParseAddrPort("192.0.2.7:49152")
	const n = 3 * multiMost
	for range n {
		if err := first.HandOver(packetTo(0xab02, 500), peer, 3, 17); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		var rx link.Rx
		receive(t, second, &rx)
		if !rx.HandedOver || rx.Src != peer || len(rx.Data) != 500 {
			t.Fatalf("packet %d: %d bytes from %v, handed over %t", i, len(rx.Data), rx.Src, rx.HandedOver)
		}
	}
	if second.in.multi.m == nil {
		t.Error("each packet was received by itself")
	}
}

func TestPacketsOfAnotherLengthAreJoinedNextTime(t *testing.T) {
	_, l := pair(t, "127.0.0.1", Config{})
	u := newUnchecked(t, l)
	for _, length := range []int{4112, 80, 1040, 60, 4112} {
		for range 2 {
			u.send(repeat(40, length)...)
			u.expect(slices.Concat(packets(t, l, func(*link.Rx) {})...))
		}
		u.send(repeat(15, length)...)
		got := packets(t, l, func(*link.Rx) {})
		if len(got) != 1 {
			t.Errorf("packets of %d are %s", length, lengthsOf(got))
		}
		u.expect(slices.Concat(got...))
	}
}

func BenchmarkUnchecked32x4112(b *testing.B) { benchmarkUnchecked(b, 32, 4112) }

func BenchmarkUnchecked128x80(b *testing.B) { benchmarkUnchecked(b, 128, 80) }

func BenchmarkUnchecked3x4112(b *testing.B) { benchmarkUnchecked(b, 3, 4112) }

// benchmarkUnchecked sends and receives packets without checksums on one goroutine. It reports how long receiving takes for
// each packet.
func benchmarkUnchecked(b *testing.B, n, length int) {
	_, l := pair(b, "127.0.0.1", Config{})
	u := newUnchecked(b, l)
	p := pattern(length)
	var rx link.Rx
	var spent time.Duration
	rounds := 0
	b.ReportAllocs()
	for b.Loop() {
		for range n {
			if err := unix.Sendto(u.fd, p, 0, u.dst); err != nil {
				b.Fatal(err)
			}
		}
		began := time.Now()
		for got := 0; got < n*length; got += len(rx.Data) {
			if ok, err := l.Receive(&rx); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
		if ok, err := l.Receive(&rx); ok || err != nil {
			b.Fatal(ok, err)
		}
		spent += time.Since(began)
		rounds++
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds*n), "ns/packet")
}
