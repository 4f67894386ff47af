package message

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// The pieces cover the message in order. Each is within one segment and the limit.
func TestCutCoversTheMessage(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var own [][]byte
		var all []byte
		for range rng.IntN(6) {
			b := make([]byte, rng.IntN(20))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			own, all = append(own, b), append(all, b...)
		}
		all = all[:len(all)-rng.IntN(len(all)+1)] // the buffer of a receive may be longer
		var peers []Segment
		for left := len(all); left > 0; {
			n := 1 + rng.IntN(left)
			peers = append(peers, Segment{Length: n})
			left -= n
		}
		limit := 1 + rng.IntN(10)
		var got []byte
		segment, next := 0, 0
		Cut(own, peers, limit, func(i, at int, b []byte) {
			if i != segment {
				segment, next = i, 0
			}
			if at != next || len(b) == 0 || len(b) > limit || at+len(b) > peers[i].Length {
				t.Fatalf("seed %d: %d bytes at %d of segment %d, expected at most %d at %d", seed, len(b), at, i, limit, next)
			}
			next += len(b)
			got = append(got, b...)
		})
		if !bytes.Equal(got, all) {
			t.Fatalf("seed %d: %x, expected %x", seed, got, all)
		}
	}
}
