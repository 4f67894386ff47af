package rsocket

import (
	"math/rand/v2"
	"testing"
)

// Pieces that are in use at the same time never overlap, and all memory is freed.
func TestSendBufferPiecesDoNotOverlap(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		size := 100 + r.IntN(10000)
		b := NewSendBuffer(size, 8)
		type piece struct{ off, n, users int }
		used := map[uint32]*piece{}
		owner := make([]uint32, size) // id+1 of each byte
		for range 3000 {
			switch r.IntN(3) {
			case 0:
				want := 1 + r.IntN(size)
				room := b.Room(want)
				off, n, id := b.Take(want)
				if n != room {
					t.Fatalf("seed %d: room for %d, found %d", seed, room, n)
				}
				if n == 0 {
					if len(used) == 0 {
						t.Fatalf("seed %d: no room in an empty buffer", seed)
					}
					continue
				}
				for i := off; i < off+n; i++ {
					if owner[i] != 0 {
						t.Fatalf("seed %d: byte %d belongs to %d, given to %d", seed, i, owner[i]-1, id)
					}
					owner[i] = id + 1
				}
				p := &piece{off, n, 1}
				used[id] = p
				if r.IntN(3) == 0 {
					k := r.IntN(n + 1)
					b.Trim(id, n, k)
					clear(owner[off+k : off+n])
					p.n = k
				}
			case 1:
				for id, p := range used {
					b.Hold(id)
					p.users++
					break
				}
			case 2:
				for id, p := range used {
					b.Done(id)
					if p.users--; p.users == 0 {
						clear(owner[p.off : p.off+p.n])
						delete(used, id)
					}
					break
				}
			}
		}
		for id, p := range used {
			for range p.users {
				b.Done(id)
			}
		}
		if b.Used() || b.Room(size) != size {
			t.Fatalf("seed %d: room for %d of %d bytes when all are given back", seed, b.Room(size), size)
		}
	}
}

// The end of the ring does not split a small piece.
func TestSendBufferDoesNotSplitSmallPieces(t *testing.T) {
	b := NewSendBuffer(1000, 8)
	_, _, first := b.Take(990)
	_, _, second := b.Take(5)
	b.Done(first)
	off, n, third := b.Take(100)
	if off != 0 || n != 100 {
		t.Fatalf("expected 100 bytes at 0, found %d at %d", n, off)
	}
	b.Done(second)
	b.Done(third)
	if b.Used() {
		t.Fatal("something is used still")
	}
}
