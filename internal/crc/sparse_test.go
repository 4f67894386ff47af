package crc

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
)

func TestSparseEveryLengthAndAlignmentIsHashCRC32(t *testing.T) {
	b := page(1200)
	for at := range 8 {
		for n := 0; at+n <= len(b); n++ {
			for _, before := range []uint32{0, 0xffffffff, 0x12345678} {
				got, want := ^IEEE.sparse(^before, b[at:at+n]), crc32.Update(before, crc32.IEEETable, b[at:at+n])
				if got != want {
					t.Fatalf("%d bytes at alignment %d after %#08x: got %#08x, want %#08x", n, at, before, got, want)
				}
			}
		}
	}
}

func BenchmarkSparse(b *testing.B) {
	for _, n := range []int{64, 128, 256, 1024, 4096} {
		data := page(n)
		b.Run(fmt.Sprintf("sparse/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sink = IEEE.sparse(sink, data)
			}
		})
		b.Run(fmt.Sprintf("tables/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				r := sink
				for d := data; len(d) >= 8; d = d[8:] {
					r = IEEE.word(r, binary.LittleEndian.Uint64(d))
				}
				sink = r
			}
		})
	}
}
