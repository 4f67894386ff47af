package msg_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"softrdma/msg"
	"softrdma/verbs"
)

func TestCacheKeepsMemoryThatIsUsedAgain(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, random(1000), msg.AllowAll)
		buf := make([]byte, 1000)
		for range 5 {
			wait(t, m.Get(0, msg.Buffers{buf}))
			if n, size := a.Kept(); n != 1 || size != 1000 {
				t.Fatalf("%d pieces of %d bytes, expected 1 of 1000", n, size)
			}
		}
		wait(t, m.Put(0, msg.Buffers{buf})) // which the device need not write to
		if n, size := a.Kept(); n != 2 || size != 2000 {
			t.Errorf("%d pieces of %d bytes, expected 2 of 2000", n, size)
		}
		long := make([]byte, 10000)
		for range 2 {
			r := b.Receive(msg.Buffers{long}, 1, msg.All)
			wait(t, e.Send(1, msg.Buffers{random(10000)}, nil))
			wait(t, r)
			if n, size := b.Kept(); n != 1 || size != 10000 {
				t.Errorf("the receiver keeps %d pieces of %d bytes, expected 1 of 10000", n, size)
			}
		}
	})
}

// Bytes and pieces are bounded, whatever is in flight at the same time.
func TestCacheIsBounded(t *testing.T) {
	const limit = 100000
	for name, c := range map[string]struct{ limit, longest, bytes, pieces int }{
		"by bytes":  {limit, 20000, limit, 256},
		"by pieces": {1 << 30, 300, 300 * 300, 256},
		"off":       {-1, 20000, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, msg.Config{Cache: c.limit}, func(t *testing.T, a, b *msg.Worker) {
				e := connect(t, a, b)
				region, m := share(t, b, e, random(20000), msg.AllowAll)
				var list []*msg.Request
				var buffers [][]byte
				for i := range 1000 {
					n := 257 + rand.IntN(c.longest-257)
					buf := make([]byte, n)
					if i > 10 && i%3 == 0 {
						buf = buffers[i-rand.IntN(10)-1]
					}
					buffers = append(buffers, buf)
					list = append(list, m.Get(0, msg.Buffers{buf}))
				}
				for _, r := range list {
					wait(t, r) // several fill the same buffer
				}
				for i := range list {
					if !bytes.Equal(buffers[i], region.Bytes()[:len(buffers[i])]) {
						t.Fatalf("get %d found other bytes", i)
					}
				}
				n, size := a.Kept()
				if n > c.pieces || size > c.bytes || (n == 0) != (c.bytes == 0) {
					t.Errorf("%d pieces of %d bytes, expected at most %d of %d", n, size, c.pieces, c.bytes)
				}
			})
		})
	}
}

// The program frees memory of AllocMemory when its requests have ended.
func TestCacheDoesNotKeepAllocatedMemory(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		_, m := share(t, b, e, random(20000), msg.AllowAll)
		memory, err := verbs.AllocMemory(20000, verbs.AllocConfig{})
		if err != nil {
			t.Fatal(err)
		}
		wait(t, m.Get(0, msg.Buffers{memory.Bytes()[:300]}))
		wait(t, m.Put(0, msg.Buffers{memory.Bytes()}))
		wait(t, e.Flush())
		if err := memory.Free(); err != nil {
			t.Error(err)
		}
	})
}

// A peer that guesses the key of memory that a request has used cannot access it.
func TestKeptMemoryIsClosedToPeers(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		for _, kind := range []string{"get", "put", "add"} {
			e := connect(t, a, b)
			buf := make([]byte, 10000)
			r := b.Receive(msg.Buffers{buf}, 1, msg.All)
			wait(t, e.Send(1, msg.Buffers{random(10000)}, nil))
			wait(t, r)
			want := bytes.Clone(buf)
			m, err := e.Remote(b.KeptKey(buf))
			if err != nil {
				t.Fatal(err)
			}
			switch kind {
			case "get":
				m.Get(0, msg.Buffers{make([]byte, 1000)})
			case "put":
				m.Put(0, msg.Buffers{make([]byte, 1000)})
			default:
				m.Atomic64(msg.AtomicAdd, 0, 1, nil)
			}
			if _, err := e.Flush().Wait(within(t)); !errors.Is(err, msg.ErrRefused) {
				t.Errorf("%s: %v, expected %v", kind, err, msg.ErrRefused)
			}
			if !bytes.Equal(buf, want) {
				t.Errorf("%s changed the memory", kind)
			}
		}
	})
}

// A peer can read the bytes of a message until its request ends, and not longer.
func TestSentMemoryIsClosedAfterTheRequest(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e, back := connect(t, a, b), connect(t, b, a)
		data := random(10000)
		s := e.Send(1, msg.Buffers{data}, nil)
		m, err := back.Remote(s.ExposedKey())
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 10000)
		wait(t, m.Get(0, msg.Buffers{got}))
		wait(t, b.Receive(msg.Buffers{make([]byte, 10000)}, 1, msg.All))
		wait(t, s)
		if !bytes.Equal(got, data) {
			t.Error("the peer found other bytes")
		}
		if _, err := m.Get(0, msg.Buffers{got}).Wait(within(t)); !errors.Is(err, msg.ErrRefused) {
			t.Errorf("after the request: %v, expected %v", err, msg.ErrRefused)
		}
	})
}
