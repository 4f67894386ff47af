package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// memory returns zeroed memory of an end, as the system maps it.
func memory(n int) []byte {
	words := make([]uint64, Size(n)/8+8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	skip := -uintptr(unsafe.Pointer(&b[0])) % line
	return b[skip:][:Size(n):Size(n)]
}

// pair returns the ends of the ring from one to the other, for frames of at most n bytes.
func pair(t testing.TB, n int) (*Writer, *Reader) {
	t.Helper()
	a, b := memory(n), memory(n)
	w, err := NewWriter(a, b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(b, a, n)
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

// frame returns the bytes of a frame with a number.
func frame(i uint64, n int) []byte {
	b := bytes.Repeat([]byte{0xff}, n) // not 0, as words without a frame are
	rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), i))).Read(b[:n/2])
	return b
}

// Frames of random lengths arrive in order, whatever both ends do in between. An end that waits is told:
// there is always a bell, or something to do. The model sleeps as workers do.
func TestFramesArriveInOrderAndNobodyWaitsForever(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		longest := 1 + rng.IntN(20000)
		w, r := pair(t, longest)
		const frames = 3000
		var sent, got uint64
		var writerWaits, readerSleeps bool
		lengths := map[uint64]int{}
		write := func() {
			n, ok := lengths[sent]
			if !ok {
				n = rng.IntN(longest + 1)
				if rng.IntN(3) > 0 {
					n = rng.IntN(min(longest, 100) + 1)
				}
				lengths[sent] = n
			}
			b := w.Reserve(n)
			for b == nil {
				if !w.Await() {
					writerWaits = true
					return
				}
				b = w.Reserve(n)
			}
			copy(b, frame(sent, n))
			w.Commit(n)
			sent++
			if w.Bell() {
				readerSleeps = false
			}
		}
		read := func() bool {
			b, err := r.Next()
			if err != nil {
				t.Fatalf("seed %d: frame %d: %v", seed, got, err)
			}
			if b == nil {
				return false
			}
			if !bytes.Equal(b, frame(got, lengths[got])) {
				t.Fatalf("seed %d: frame %d: other bytes, %d of %d", seed, got, len(b), lengths[got])
			}
			r.Release()
			got++
			return true
		}
		show := func() {
			if r.Show() {
				writerWaits = false
			}
		}
		for got < frames {
			switch {
			case writerWaits && readerSleeps:
				t.Fatalf("seed %d: both ends wait, %d frames were sent and %d taken", seed, sent, got)
			case sent < frames && !writerWaits && (readerSleeps || rng.IntN(2) == 0):
				for range 1 + rng.IntN(20) {
					if write(); writerWaits || sent == frames {
						break
					}
				}
			case readerSleeps:
				t.Fatalf("seed %d: the reader sleeps, %d frames were sent and %d taken", seed, sent, got)
			default:
				for range 1 + rng.IntN(20) {
					if read() {
						continue
					}
					show()
					r.Sleep()
					if rng.IntN(2) == 0 && sent < frames && !writerWaits {
						write()
					}
					readerSleeps = !read()
					break
				}
				show()
			}
			if w.Moved() {
				writerWaits = false
			}
		}
		show()
		if w.look(); w.consumed != w.at {
			t.Errorf("seed %d: a ring whose frames were taken is not empty", seed)
		}
	}
}

// Two goroutines sleep until the other end rings.
func TestEndsWakeEachOther(t *testing.T) {
	frames := uint64(200_000)
	if testing.Short() {
		frames /= 10
	}
	w, r := pair(t, 3000)
	toWriter, toReader := make(chan struct{}, 1), make(chan struct{}, 1)
	ring := func(bell chan struct{}) {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	go func() {
		for i := range frames {
			n := int(i*7919) % 3001
			b := w.Reserve(n)
			for ; b == nil; b = w.Reserve(n) {
				if !w.Await() {
					<-toWriter
				}
			}
			for k := range b {
				b[k] = byte(i)
			}
			if w.Commit(n); w.Bell() {
				ring(toReader)
			}
		}
	}()
	for i := uint64(0); i < frames; {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			if r.Show() {
				ring(toWriter)
			}
			if r.Sleep(); r.none() {
				<-toReader
			}
			continue
		}
		if n := int(i*7919) % 3001; len(b) != n || n > 0 && (b[0] != byte(i) || b[n-1] != byte(i)) {
			t.Fatalf("frame %d: %d bytes, expected %d", i, len(b), n)
		}
		r.Release()
		i++
	}
}

func (r *Reader) none() bool {
	b, err := r.Next()
	return b == nil && err == nil
}

// Memory of another size is refused, and what a peer says cannot lead out of the ring.
func TestDamagedRingsAreRefused(t *testing.T) {
	for _, n := range []int{0, head, head + line, Size(100) - 1, Size(100) + line} {
		if _, err := NewWriter(memory(100), make([]byte, n)); !errors.Is(err, ErrRing) {
			t.Errorf("memory of %d bytes: %v", n, err)
		}
	}
	if _, err := NewWriter(memory(100), memory(10000)[1:][:Size(100)]); !errors.Is(err, ErrRing) {
		t.Errorf("memory that is not aligned: %v", err)
	}
	a, b := memory(100), memory(100)
	w, _ := NewWriter(a, b)
	r, _ := NewReader(b, a, 100)
	for _, word := range []uint64{102, 1 << 40, wrap, wrap | 5, 1<<64 - 1} {
		w.own.word(0).Store(word)
		if f, err := r.Next(); !errors.Is(err, ErrRing) {
			t.Errorf("word %#x: %d bytes, error %v", word, len(f), err)
		}
	}
	clear(a)
	for _, consumed := range []uint64{1, 1 << 40, 1<<64 - 1} { // nothing was sent
		w.peer.consumed.Store(consumed)
		sent := 0
		for w.Reserve(100) != nil {
			w.Commit(100)
			sent++
		}
		if most := len(w.own.mem) / line / span(100); sent > most {
			t.Fatalf("consumed %d: %d frames were sent, there is room for %d", consumed, sent, most)
		}
	}
}

// A reader of random memory returns frames within it or an error, and comes to an end.
func FuzzReader(f *testing.F) {
	f.Add([]byte{101, 0, 0, 0, 0, 0, 0, 0}, uint16(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, uint16(1023))
	f.Fuzz(func(t *testing.T, words []byte, at uint16) {
		a, b := memory(1000), memory(1000)
		r, err := NewReader(b, a, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+8 <= len(words); i += 8 {
			copy(r.peer.mem[(int(at)+i/8)%(len(r.peer.mem)/line)*line:], words[i:i+8])
		}
		r.at = uint64(at)
		for range 2 * len(r.peer.mem) / line {
			f, err := r.Next()
			if err != nil || f == nil {
				return
			}
			if len(f) > 1000 {
				t.Fatalf("frame of %d bytes", len(f))
			}
			r.Release()
			r.Show()
		}
	})
}

func FuzzControl(f *testing.F) {
	f.Add(Control{Kind: Offer, Address: 1 << 40, Key: 7, Len: 70000}.Bytes())
	f.Add(Control{Kind: Bell}.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseControl(b)
		if err != nil {
			return
		}
		if b[0] = Magic; !bytes.Equal(c.Bytes(), b) {
			t.Fatalf("%x became %+v", b, c)
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	w, r := pair(b, 8232)
	b.ReportAllocs()
	for b.Loop() {
		w.Reserve(48)
		w.Commit(48)
		w.Bell()
		_, _ = r.Next()
		r.Release()
		r.Show()
	}
}
