package crc

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// page holds random bytes, enough for each length at each alignment.
func page(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{'c', 'r', 'c'})
	r.Read(b)
	return b
}

func TestUpdateEveryLengthAndAlignmentIsHashCRC32(t *testing.T) {
	const longest, alignments = 1200, 64
	b := page(longest + alignments)
	for at := range alignments {
		for n := range longest + 1 {
			for _, before := range []uint32{0, 0xffffffff, 0x12345678} {
				got, want := Update(before, IEEE, b[at:at+n]), crc32.Update(before, crc32.IEEETable, b[at:at+n])
				if got != want {
					t.Fatalf("%d bytes at alignment %d after %#08x: got %#08x, want %#08x", n, at, before, got, want)
				}
			}
		}
	}
}

// Both widths of folding are tested if the processor supports both.
func TestFoldEachWidthAndLengthIsHashCRC32(t *testing.T) {
	if !folds {
		t.Skip("this processor has no VPCLMULQDQ: nothing folds")
	}
	b := page(4200)
	for n := tableTo; n <= len(b); n += 16 {
		want := crc32.ChecksumIEEE(b[:n])
		for _, w := range []bool{false, wide} {
			if got := ^fold(^uint32(0), &b[0], n, &IEEE.k, w); got != want {
				t.Fatalf("%d bytes, wide %v: got %#08x, want %#08x", n, w, got, want)
			}
		}
	}
}

func TestBehindIsUpdateOverBoth(t *testing.T) {
	b := page(4300)
	low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	for n := range len(b) - 16 {
		for _, table := range []*Table{IEEE, Castagnoli} {
			if got, want := Behind(low, high, table, b[16:16+n]), Update(^uint32(0), table, b[:16+n]); got != want {
				t.Fatalf("%d bytes: got %#08x, want %#08x", n, got, want)
			}
		}
	}
}

func TestFoldBehindEachWidthIsFold(t *testing.T) {
	if !folds {
		t.Skip("this processor has no VPCLMULQDQ: nothing folds")
	}
	b := page(4200)
	low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	for n := tableTo; n <= len(b)-16; n += 16 {
		want := fold(0, &b[0], 16+n, &IEEE.k, wide)
		for _, w := range []bool{false, wide} {
			if got := foldBehind(low, high, &b[16], n, &IEEE.k, w); got != want {
				t.Fatalf("%d bytes, wide %v: got %#08x, want %#08x", n, w, got, want)
			}
		}
	}
}

func TestUpdatePacketLengthsAreHashCRC32(t *testing.T) {
	b := page(9100)
	for n := 1200; n <= len(b); n++ {
		if got, want := Update(0, IEEE, b[:n]), crc32.ChecksumIEEE(b[:n]); got != want {
			t.Fatalf("%d bytes: got %#08x, want %#08x", n, got, want)
		}
	}
}

func TestUpdateReadsNotBeyondItsArgument(t *testing.T) {
	b := page(600)
	for n := range 512 {
		want := Update(0, IEEE, b[:n])
		for i := n; i < len(b); i++ {
			b[i] ^= 0xff
		}
		if got := Update(0, IEEE, b[:n]); got != want {
			t.Fatalf("%d bytes: got %#08x, %#08x before the bytes after them changed", n, got, want)
		}
	}
}

func TestUpdateAllocatesNothing(t *testing.T) {
	var b [4096]byte
	if n := testing.AllocsPerRun(100, func() { sink ^= Update(sink, IEEE, b[:]) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte("123456789"))
	f.Add(uint32(1), page(300))
	f.Fuzz(func(t *testing.T, crc uint32, b []byte) {
		if got, want := Update(crc, IEEE, b), crc32.Update(crc, crc32.IEEETable, b); got != want {
			t.Errorf("%#08x over %d bytes: got %#08x, want %#08x", crc, len(b), got, want)
		}
	})
}

var sink uint32

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{64, 256, 1024, 4096} {
		data := page(n)
		b.Run(fmt.Sprintf("fold/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sink = Update(sink, IEEE, data)
			}
		})
		b.Run(fmt.Sprintf("hash/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sink = crc32.Update(sink, crc32.IEEETable, data)
			}
		})
	}
}
