package crc

import (
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
			t.Fatalf("%d bytes: got %#08x, %#08x before the bytes behind changed", n, got, want)
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
