package msg_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"softrdma/msg"
)

// share maps memory at a worker and returns it as the endpoint sees it.
func share(t testing.TB, w *msg.Worker, e *msg.Endpoint, buf []byte, rights msg.Rights) (*msg.Region, *msg.Remote) {
	t.Helper()
	region, err := w.Map(buf, rights)
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Remote(region.Key())
	if err != nil {
		t.Fatal(err)
	}
	return region, m
}

// peek copies memory that a peer has written. The race detector does not know what orders that: the
// peer's bytes come from a socket.
//
//go:norace
func peek(b []byte) []byte {
	c := make([]byte, len(b))
	for i := len(b) - 1; i >= 0; i-- { // copy is instrumented
		c[i] = b[i]
	}
	return c
}

// Puts of all sizes and alignments change their bytes and no others, after Flush of the endpoint or
// of the worker.
func TestPutsOfAllSizesArriveBeforeTheFlushEnds(t *testing.T) {
	const size = 3 << 20
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		allocated, err := b.Allocate(size, msg.AllowAll)
		if err != nil {
			t.Fatal(err)
		}
		far, err := e.Remote(allocated.Key())
		if err != nil {
			t.Fatal(err)
		}
		mapped, near := share(t, b, e, make([]byte, size), msg.AllowPut)
		want := make([]byte, size)
		for i, n := range []int{0, 1, 7, 255, 256, 257, 4096, 70001, 1<<20 + 3} {
			at := rand.IntN(size - n + 1)
			data := random(n)
			copy(want[at:], data)
			if got := wait(t, far.Put(at, msg.Buffers{data})); got.Length != n {
				t.Errorf("put of %d bytes: %+v", n, got)
			}
			near.Put(at, msg.Buffers{data})
			if i%2 == 0 {
				wait(t, e.Flush())
			} else {
				wait(t, a.Flush())
			}
			if !bytes.Equal(peek(allocated.Bytes()), want) || !bytes.Equal(peek(mapped.Bytes()), want) {
				t.Fatalf("put of %d bytes at %d: the region differs", n, at)
			}
		}
	})
}

// A flush waits also if one before it waits for the same accesses.
func TestSecondFlushWaitsAsTheFirstDoes(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, make([]byte, 5000), msg.AllowPut)
		m.Put(0, msg.Buffers{random(5000)})
		first := e.Flush()
		ended := false
		second := e.Flush()
		second.Then(func(msg.Info, error) { ended = true })
		if ended {
			t.Error("the second flush ended before any progress")
		}
		for done := false; !done; {
			b.Progress()
			_, done, _ = second.Poll()
		}
		if _, done, err := first.Poll(); !done || err != nil {
			t.Errorf("the first flush has ended: %v, %v", done, err)
		}
	})
}

func TestGetsOfAllSizes(t *testing.T) {
	const size = 3 << 20
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		region, m := share(t, b, e, random(size), msg.AllowGet)
		local, err := a.Allocate(size, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 7, 255, 256, 257, 4096, 70001, 1<<20 + 3} {
			at := rand.IntN(size - n + 1)
			for _, buf := range [][]byte{make([]byte, n), local.Bytes()[:n]} {
				if got := wait(t, m.Get(at, msg.Buffers{buf})); got.Length != n || !bytes.Equal(buf, region.Bytes()[at:at+n]) {
					t.Errorf("get of %d bytes at %d: %+v, same bytes: %v", n, at, got, bytes.Equal(buf, region.Bytes()[at:at+n]))
				}
			}
		}
	})
}

// Many more accesses than fit into the send queue are started at once.
func TestManyAccessesAtOnce(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const n, size = 500, 300
		region, m := share(t, b, e, make([]byte, n*size), msg.AllowAll)
		data := random(n * size)
		for i := range n {
			k := size - i%100 // short and long ones
			m.Put(i*size, msg.Buffers{data[i*size:][:k]})
			m.Put(i*size+k, msg.Buffers{data[i*size+k:][:size-k]})
		}
		got := make([]byte, n*size)
		gets := []*msg.Request{a.Flush()}
		e.Fence()
		for i := range n {
			gets = append(gets, m.Get(i*size, msg.Buffers{got[i*size:][:size-i%100]}), m.Get((i+1)*size-i%100, msg.Buffers{got[(i+1)*size-i%100:][:i%100]}))
		}
		for _, r := range gets {
			wait(t, r)
		}
		if !bytes.Equal(peek(region.Bytes()), data) || !bytes.Equal(got, data) {
			t.Errorf("region has the bytes: %v, gets found them: %v", bytes.Equal(peek(region.Bytes()), data), bytes.Equal(got, data))
		}
	})
}

// Pieces of a list are contiguous in the region.
func TestListsOfPieces(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const size = 20000
		region, m := share(t, b, e, make([]byte, size), msg.AllowAll)
		for pieces := 0; pieces <= 128; pieces += max(pieces, 1) {
			data := random(size)
			var list, into [][]byte
			got := make([]byte, size)
			for i := range pieces {
				from, to := i*size/pieces, (i+1)*size/pieces
				list, into = append(list, data[from:to]), append(into, got[from:to])
			}
			want := size
			if pieces == 0 {
				want = 0
			}
			if i := wait(t, m.Put(0, list)); i.Length != want {
				t.Errorf("%d pieces: %d bytes, expected %d", pieces, i.Length, want)
			}
			wait(t, e.Flush())
			wait(t, m.Get(0, into))
			if want > 0 && (!bytes.Equal(peek(region.Bytes()), data) || !bytes.Equal(got, data)) {
				t.Errorf("%d pieces: put: %v, get: %v", pieces, bytes.Equal(peek(region.Bytes()), data), bytes.Equal(got, data))
			}
		}
	})
}

// An access after a fence is not overtaken by those before it.
func TestFenceOrdersPuts(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		for size := 1000000; size >= 1; size /= 10 {
			region, m := share(t, b, e, make([]byte, size), msg.AllowPut)
			data := bytes.Repeat([]byte{0x7f}, size)
			for i := range 20 {
				m.Put(0, msg.Buffers{data})
				if i%2 == 0 {
					e.Fence()
				} else {
					a.Fence()
				}
				m.Put(size-1, msg.Buffers{[]byte{byte(i)}})
				m.Put(0, msg.Buffers{[]byte{byte(i)}})
				wait(t, a.Flush())
				if x := peek(region.Bytes()); x[0] != byte(i) || x[size-1] != byte(i) {
					t.Fatalf("%d bytes: the first is %d and the last %d, expected %d", size, x[0], x[size-1], i)
				}
			}
		}
	})
}

// A fence orders each kind of access behind each other.
func TestFenceOrdersAllKindsOfAccesses(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, make([]byte, 8), msg.AllowAll)
		for i := range uint64(100) {
			var old, zero uint64
			got := make([]byte, 8)
			m.Put(0, msg.Buffers{zeroes})
			e.Fence()
			m.Atomic64(msg.AtomicXor, 0, i, nil) // a loop
			e.Fence()
			m.Atomic64(msg.AtomicAdd, 0, 1, &old)
			e.Fence()
			get := m.Get(0, msg.Buffers{got})
			e.Fence()
			m.Put(0, msg.Buffers{[]byte{1, 2, 3, 4, 5, 6, 7, 8}})
			e.Fence()
			m.Atomic64(msg.AtomicSwap, 0, 0, &zero)
			wait(t, e.Flush())
			wait(t, get)
			if old != i || word64(got) != i+1 || zero != word64([]byte{1, 2, 3, 4, 5, 6, 7, 8}) {
				t.Fatalf("round %d: the add found %d, the get %d, the swap %#x", i, old, word64(got), zero)
			}
		}
	})
}

// What is impossible is refused before anything is sent, and the endpoint continues.
func TestImpossibleAccessesAreNamed(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, make([]byte, 100), msg.AllowAll)
		_, get := share(t, b, e, make([]byte, 100), msg.AllowGet)
		_, put := share(t, b, e, make([]byte, 100), msg.AllowPut)
		data := make([]byte, 101)
		for name, c := range map[string]struct {
			r    *msg.Request
			want error
		}{
			"put too long":             {m.Put(0, msg.Buffers{data}), msg.ErrBounds},
			"put beyond the end":       {m.Put(100, msg.Buffers{data[:1]}), msg.ErrBounds},
			"put before the beginning": {m.Put(-1, msg.Buffers{data[:1]}), msg.ErrBounds},
			"empty put beyond the end": {m.Put(101, nil), msg.ErrBounds},
			"get too long":             {m.Get(1, msg.Buffers{data[:100]}), msg.ErrBounds},
			"list too long":            {m.Put(0, [][]byte{data[:50], data[:51]}), msg.ErrBounds},
			"empty list beyond":        {m.Get(101, nil), msg.ErrBounds},
			"put without right":        {get.Put(0, msg.Buffers{data[:1]}), msg.ErrRights},
			"get without right":        {put.Get(0, msg.Buffers{data[:1]}), msg.ErrRights},
			"atomic without right":     {put.Atomic64(msg.AtomicAdd, 0, 1, nil), msg.ErrRights},
			"word across the end":      {m.Atomic64(msg.AtomicAdd, 96, 1, nil), msg.ErrBounds},
			"word not aligned":         {m.Atomic64(msg.AtomicAdd, 4, 1, nil), msg.ErrAlignment},
			"swap not aligned":         {m.CompareSwap64(1, 1, 1, nil), msg.ErrAlignment},
			"half word not aligned":    {m.Atomic32(msg.AtomicOr, 2, 1, nil), msg.ErrAlignment},
			"half word at the end":     {m.Atomic32(msg.AtomicOr, 96, 1, nil), msg.ErrBounds},
		} {
			if _, err := c.r.Wait(within(t)); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, expected %v", name, err, c.want)
			}
		}
		if _, err := m.Atomic64(0, 0, 0, nil).Wait(within(t)); err == nil {
			t.Error("operation 0 was accepted")
		}
		if _, err := a.Map(nil, 8); err == nil {
			t.Error("unknown rights were accepted")
		}
		wait(t, m.Put(0, msg.Buffers{data[:100]}))
		wait(t, e.Flush())
	})
}

// A region without bytes has a key.
func TestEmptyRegion(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		region, m := share(t, b, e, nil, msg.AllowAll)
		wait(t, m.Put(0, nil))
		wait(t, m.Get(0, nil))
		if m.Len() != 0 || m.Rights() != msg.AllowAll {
			t.Errorf("%d bytes with rights %d", m.Len(), m.Rights())
		}
		if err := region.Unmap(); err != nil {
			t.Error(err)
		}
	})
}

func TestKeysThatAreNotOfThePeerAreNamed(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		mine, err := a.Map(make([]byte, 8), msg.AllowAll)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := b.Map(make([]byte, 8), msg.AllowAll)
		if err != nil {
			t.Fatal(err)
		}
		key := theirs.Key()
		if len(key) > 64 {
			t.Errorf("a key has %d bytes", len(key))
		}
		changed := func(i int, x byte) []byte {
			b := bytes.Clone(key)
			b[i] ^= x
			return b
		}
		for name, c := range map[string]struct {
			key  []byte
			want error
		}{
			"of another worker": {mine.Key(), msg.ErrStale},
			"nothing":           {nil, msg.ErrKey},
			"address":           {b.Address(), msg.ErrKey},
			"cut":               {key[:len(key)-1], msg.ErrKey},
			"too long":          {append(bytes.Clone(key), 0), msg.ErrKey},
			"another version":   {changed(12, 3), msg.ErrVersion},
			"unknown flag":      {changed(13, 0x40), msg.ErrKey},
			"impossible length": {changed(30, 0xff), msg.ErrKey},
		} {
			if _, err := e.Remote(c.key); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, expected %v", name, err, c.want)
			}
		}
	})
}

// A peer refuses accesses to a region that was unmapped. Both ends name the reason.
func TestUnmappedRegionIsRefused(t *testing.T) {
	for _, kind := range []string{"short put", "long put", "short get", "long get", "atomic", "loop"} {
		t.Run(kind, func(t *testing.T) {
			refusals := make(chan error, 10)
			config := msg.Config{Failed: func(_ *msg.Endpoint, err error) { refusals <- err }}
			each(t, config, func(t *testing.T, a, b *msg.Worker) {
				e := connect(t, a, b)
				region, m := share(t, b, e, make([]byte, 5000), msg.AllowAll)
				wait(t, m.Put(0, msg.Buffers{[]byte{1}}))
				wait(t, e.Flush())
				if err := region.Unmap(); err != nil {
					t.Fatal(err)
				}
				var r *msg.Request
				switch kind {
				case "short put":
					wait(t, m.Put(0, msg.Buffers{[]byte{2}}))
					r = e.Flush()
				case "long put":
					m.Put(0, msg.Buffers{make([]byte, 5000)})
					r = e.Flush()
				case "short get":
					r = m.Get(0, msg.Buffers{make([]byte, 1)})
				case "long get":
					r = m.Get(0, msg.Buffers{make([]byte, 5000)})
				case "atomic":
					r = m.Atomic64(msg.AtomicAdd, 0, 1, nil)
				default:
					r = m.Atomic32(msg.AtomicOr, 0, 1, nil)
				}
				_, err := r.Wait(within(t))
				if !errors.Is(err, msg.ErrRefused) || !errors.Is(err, msg.ErrPeer) {
					t.Errorf("%v, expected %v", err, msg.ErrRefused)
				}
				if _, err := m.Put(0, msg.Buffers{[]byte{1}}).Wait(within(t)); !errors.Is(err, msg.ErrRefused) || !errors.Is(e.Err(), msg.ErrRefused) {
					t.Errorf("later: %v, endpoint: %v", err, e.Err())
				}
				for range 2 { // ends
					select {
					case err := <-refusals:
						if !errors.Is(err, msg.ErrRefused) {
							t.Errorf("an end reports %v, expected %v", err, msg.ErrRefused)
						}
					case <-within(t).Done():
						t.Error("an end does not report the access")
					}
				}
				if peek(region.Bytes())[0] != 1 {
					t.Error("a refused access changed the memory")
				}
			})
		})
	}
}

// Close of an endpoint waits for its accesses.
func TestCloseWaitsForAccesses(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const n = 200
		region, m := share(t, b, e, make([]byte, n*1000), msg.AllowPut)
		data := random(n * 1000)
		var puts []*msg.Request
		for i := range n {
			puts = append(puts, m.Put(i*1000, msg.Buffers{data[i*1000:][:1000]}))
		}
		if err := e.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		for _, r := range puts {
			wait(t, r)
		}
		if !bytes.Equal(peek(region.Bytes()), data) {
			t.Error("the bytes have not arrived")
		}
		if _, err := e.Flush().Wait(within(t)); !errors.Is(err, msg.ErrPeer) || !errors.Is(err, msg.ErrClosed) {
			t.Errorf("flush after Close: %v", err)
		}
		wait(t, a.Flush())
	})
}

// A short put needs no memory once its request is released.
func TestShortPutsDoNotAllocate(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		needOwnProgress(t)
		e := connect(t, a, b)
		_, m := share(t, b, e, make([]byte, 64), msg.AllowAll)
		data, buf := make([]byte, 8), make([]byte, 8)
		var old uint64
		for name, start := range map[string]func() *msg.Request{
			"put":    func() *msg.Request { return m.Put(8, msg.Buffers{data}) },
			"get":    func() *msg.Request { return m.Get(8, msg.Buffers{buf}) },
			"atomic": func() *msg.Request { return m.Atomic64(msg.AtomicAdd, 8, 1, &old) },
			"loop":   func() *msg.Request { return m.Atomic32(msg.AtomicXor, 8, 1, nil) },
			"flush":  func() *msg.Request { return e.Flush() },
		} {
			one := func() {
				m.Put(0, msg.Buffers{data}).Release()
				r := start()
				for ended := false; !ended; {
					b.Progress()
					_, ended, _ = r.Poll()
				}
				r.Release()
			}
			for range 1000 {
				one()
			}
			if n := testing.AllocsPerRun(1000, one); n >= 1 && !raceEnabled {
				t.Errorf("%s: %v allocations, expected 0", name, n)
			}
		}
	})
}
