package crc

import (
	"hash/crc32"
	"testing"
)

func TestUpdateCastagnoliIsHashCRC32(t *testing.T) {
	std := crc32.MakeTable(crc32.Castagnoli)
	b := page(3000)
	for n := range len(b) + 1 {
		if got, want := Update(0x12345678, Castagnoli, b[:n]), crc32.Update(0x12345678, std, b[:n]); got != want {
			t.Fatalf("%d bytes: got %#08x, want %#08x", n, got, want)
		}
	}
}

func BenchmarkCastagnoli4K(b *testing.B) {
	p := page(4096)
	b.SetBytes(int64(len(p)))
	for range b.N {
		sink ^= Update(sink, Castagnoli, p)
	}
}
