package reorder

import (
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

const expected = psn.PSN(0xfffff0) // the requests wrap around

func request(p psn.PSN) *machine.In {
	in := &machine.In{}
	in.Opcode, in.PSN, in.Payload = ib.RCSendOnly, p, []byte{byte(p)}
	return in
}

// TestBufferAgainstASet holds requests in random order, and takes them out by PSN.
func TestBufferAgainstASet(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		pool := NewPool(1 << 20)
		b := pool.Buffer()
		held := map[int]bool{}
		for range 1 + r.IntN(60) {
			i := 1 + r.IntN(80)
			p := expected.Add(i)
			at, covered := b.Place(p)
			if covered != held[i] {
				t.Fatalf("seed %d: request %d is held: %v", seed, i, covered)
			}
			if covered {
				if h := b.Find(at, p); h == nil || h.Contradicts(request(p), ib.RCSendOnly.Info()) {
					t.Fatalf("seed %d: request %d was not found", seed, i)
				}
				continue
			}
			b.Insert(at, pool.Copy(request(p), 1))
			held[i] = true
		}
		checkReport(t, b, held)
		cut := 1 + r.IntN(80)
		removed := 0
		for i := range held {
			if i >= cut {
				removed++
				delete(held, i)
			}
		}
		if n := b.Cut(expected.Add(cut), pool); n != removed {
			t.Fatalf("seed %d: %d requests removed, expected %d", seed, n, removed)
		}
		last := 0
		for !b.Empty() {
			h := b.Pop()
			i := h.PSN.Sub(expected)
			if i <= last || !held[i] || h.Payload[0] != byte(h.PSN) {
				t.Fatalf("seed %d: request %d after %d, payload %x", seed, i, last, h.Payload)
			}
			delete(held, i)
			last = i
			pool.Free(h)
		}
		if len(held) != 0 || pool.Used() != 0 {
			t.Fatalf("seed %d: %d requests missing, %d bytes lent", seed, len(held), pool.Used())
		}
		pool.Return(b)
	}
}

// checkReport compares the ranges of a selective acknowledge with what is held.
func checkReport(t *testing.T, b *Buffer, held map[int]bool) {
	t.Helper()
	told := b.Report(3, expected)
	if n, ok := own.Duplicates(told); !ok || n != 3 {
		t.Fatalf("%d duplicates reported", n)
	}
	at, n := 0, 0
	for i := range own.Ranges(told) {
		skip, count := own.Range(told, i)
		for k := range int(skip) {
			if held[at+k] {
				t.Fatalf("request %d is held and not reported", at+k)
			}
		}
		at += int(skip)
		for range count {
			if !held[at] {
				t.Fatalf("request %d is reported and not held", at)
			}
			at++
			n++
		}
	}
	if own.Ranges(told) < own.MaxRanges && n != len(held) {
		t.Fatalf("%d requests reported, %d held", n, len(held))
	}
}

func TestPoolIsBounded(t *testing.T) {
	pool := NewPool(1000)
	a, b, c := pool.Copy(request(1), 1), pool.Copy(request(2), 1), pool.Copy(request(3), 1)
	if a == nil || b == nil || c == nil || pool.Copy(request(4), 1) != nil {
		t.Fatalf("%d of 1000 bytes lent", pool.Used())
	}
	pool.Free(b)
	if pool.Copy(request(4), 1) != b {
		t.Error("a copy that was returned is not used again")
	}
}

// The number of runs is bounded: each one more would take longer to place. Requests that need no run fit in.
func TestBufferBoundsItsRuns(t *testing.T) {
	pool := NewPool(64 << 20)
	b := pool.Buffer()
	hold := func(i int) bool {
		p := expected.Add(i)
		at, covered := b.Place(p)
		if covered || !b.Fits(at, p, 1) {
			return false
		}
		b.Insert(at, pool.Copy(request(p), 1))
		return true
	}
	for i := range MaxRuns { // backwards, in which order nothing comes by accident
		if !hold(3 * (MaxRuns - i)) {
			t.Fatalf("the buffer holds %d runs only", i)
		}
	}
	for _, c := range []struct {
		i    int
		fits bool
	}{{1, false}, {3*MaxRuns + 2, false}, {3 * 5, false}, {3*5 + 1, true}, {3*7 - 1, true}, {3*5 + 2, true}, {3*MaxRuns + 2, true}} {
		if hold(c.i) != c.fits {
			t.Errorf("request %d fits: %v", c.i, !c.fits)
		}
	}
	if b.Drop(pool); !b.Empty() || pool.Used() != 0 {
		t.Errorf("%d bytes are lent for nothing", pool.Used())
	}
}
