package regcache

import (
	"math/rand/v2"
	"testing"

	"softrdma/verbs"
)

// domain returns a protection domain of a device of its own.
func domain(t *testing.T) *verbs.PD {
	dev, err := verbs.Open("127.0.0.1:4799", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return pd
}

func register(t *testing.T, c *Cache, buf []byte, write bool) *Registration {
	r, err := c.Register(buf, write)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Memory that is used again has the same registration. Reading and writing have one each, and so have
// pieces of the same memory of other lengths.
func TestRegistrationIsUsedAgain(t *testing.T) {
	c := New(domain(t), 1<<20)
	buf := make([]byte, 100)
	first := register(t, c, buf, true)
	if again := register(t, c, buf, true); again != first {
		t.Error("a second request at the same time registers again")
	} else {
		again.Release()
	}
	first.Release()
	if again := register(t, c, buf, true); again != first {
		t.Error("a later request registers again")
	} else {
		again.Release()
	}
	for _, other := range []*Registration{register(t, c, buf, false), register(t, c, buf[:50], true), register(t, c, buf[1:], true)} {
		if other == first {
			t.Error("other memory or rights have the same registration")
		}
		other.Release()
	}
	if n, size := c.Kept(); n != 4 || size != 100+100+50+99 {
		t.Errorf("%d pieces of %d bytes are kept", n, size)
	}
	c.Clear()
	if n, size := c.Kept(); n != 0 || size != 0 {
		t.Errorf("%d pieces of %d bytes are kept after Clear", n, size)
	}
}

// What the longest was not used leaves first, and what requests use stays.
func TestLongestUnusedLeavesFirst(t *testing.T) {
	c := New(domain(t), 400)
	var bufs [5][]byte
	var list [5]*Registration
	for i := range bufs {
		bufs[i] = make([]byte, 100)
		list[i] = register(t, c, bufs[i], false)
	}
	if n, size := c.Kept(); n != 5 || size != 500 {
		t.Fatalf("%d pieces of %d bytes in use, expected 5 of 500", n, size)
	}
	for _, i := range []int{1, 0, 2, 3} { // 1 leaves at once
		list[i].Release()
	}
	register(t, c, bufs[0], false).Release() // is used again, so 2 is the oldest now
	sixth := register(t, c, make([]byte, 100), false)
	sixth.Release()
	list[4].Release()
	for i, kept := range []bool{true, false, false, true, true} {
		if got := c.kept[key{&bufs[i][0], 100, false}] != nil; got != kept {
			t.Errorf("buffer %d is kept: %v, expected %v", i, got, kept)
		}
	}
	if n, size := c.Kept(); n != 4 || size != 400 {
		t.Errorf("%d pieces of %d bytes, expected 4 of 400", n, size)
	}
}

// Memory of more than a quarter of the limit, and that of AllocMemory, is registered for one request.
func TestLongAndAllocatedMemoryIsNotKept(t *testing.T) {
	c := New(domain(t), 400)
	memory, err := verbs.AllocMemory(100, verbs.AllocConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, buf := range [][]byte{make([]byte, 101), memory.Bytes()} {
		r := register(t, c, buf, true)
		if r.MR.Len() != len(buf) {
			t.Errorf("%d bytes are registered, expected %d", r.MR.Len(), len(buf))
		}
		r.Release()
		if n, _ := c.Kept(); n != 0 {
			t.Errorf("%d bytes stay registered", len(buf))
		}
	}
	if err := memory.Free(); err != nil { // it would fail with a region
		t.Error(err)
	}
}

// Whatever requests do, the books agree with the registrations, and are within the limits when no request
// exceeds them.
func TestCacheKeepsItsBooksSeeds(t *testing.T) {
	pd := domain(t)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		limit := 1000 + rng.IntN(20000)
		c := New(pd, limit)
		memory := make([]byte, 4000)
		var uses []*Registration
		for range 1000 {
			if len(uses) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(uses))
				uses[i].Release()
				uses = append(uses[:i], uses[i+1:]...)
			} else {
				at := rng.IntN(300)
				uses = append(uses, register(t, c, memory[at:][:1+rng.IntN(limit/4)%3000], rng.IntN(2) == 0))
			}
			bytes := 0
			for k := range c.kept {
				bytes += k.n
			}
			n, size := c.Kept()
			if size != bytes || n != len(c.kept) {
				t.Fatalf("seed %d: %d bytes in the books, %d are kept", seed, size, bytes)
			}
			if over := size > limit || n > maxCached; over && len(uses) == 0 {
				t.Fatalf("seed %d: %d pieces of %d bytes without a request, limit %d", seed, n, size, limit)
			}
		}
		for _, r := range uses {
			r.Release()
		}
		if n, size := c.Kept(); n > maxCached || size > limit {
			t.Fatalf("seed %d: %d pieces of %d bytes at the end, limit %d", seed, n, size, limit)
		}
		c.Clear()
		if n, size := c.Kept(); n != 0 || size != 0 {
			t.Fatalf("seed %d: %d pieces of %d bytes after Clear", seed, n, size)
		}
	}
	if err := pd.Dealloc(); err != nil { // it would fail with a region
		t.Error(err)
	}
}
