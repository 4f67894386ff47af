package buffers

import (
	"testing"
	"testing/synctest"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/verbs"
)

func withPD(t *testing.T, test func(t *testing.T, pd *verbs.PD)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bubble.New(1, simnet.LinkConfig{})
		t.Cleanup(w.End)
		h, err := w.Open("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Device.Close()
		pd, err := h.Device.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		test(t, pd)
		if err := pd.Dealloc(); err != nil {
			t.Error(err)
		}
		if n := h.Device.Counts(); n != (verbs.Counts{}) {
			t.Errorf("left %+v", n)
		}
	})
}

func TestBuffersDoNotOverlap(t *testing.T) {
	withPD(t, func(t *testing.T, pd *verbs.PD) {
		p, budget := NewPool(pd, 4<<20), NewBudget(4<<20)
		var all []*Buffer
		for i := range 300 {
			b, err := p.Try(budget, []int{1, 4097, 20000}[i%3])
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				break
			}
			if s := b.SGE(1, 7); s.Length != 7 || s.Addr != b.SGE(0, 8).Addr+1 {
				t.Errorf("entry %+v of %+v", s, b.SGE(0, 8))
			}
			for j := range b.Bytes {
				b.Bytes[j] = byte(i)
			}
			all = append(all, b)
		}
		if len(all) < 100 {
			t.Fatalf("expected most buffers, found %d", len(all))
		}
		for i, b := range all {
			if b.Bytes[0] != byte(i) || b.Bytes[len(b.Bytes)-1] != byte(i) {
				t.Fatalf("buffer %d has bytes of another", i)
			}
			p.Put(b)
		}
		if b, err := p.Try(budget, 4<<20); b == nil || err != nil {
			t.Errorf("the whole budget: %v, %v", b, err)
		}
		if _, err := p.Try(budget, 4<<20+1); err == nil {
			t.Error("a buffer beyond the limit")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPoolKeepsNoMemoryForEachSize: a host could otherwise make a target keep its limit several times, with
// one size of commands after the other.
func TestPoolKeepsNoMemoryForEachSize(t *testing.T) {
	withPD(t, func(t *testing.T, pd *verbs.PD) {
		const limit = 4 << 20
		p, budget := NewPool(pd, limit), NewBudget(limit)
		kept, err := p.Try(budget, 4096)
		if err != nil {
			t.Fatal(err)
		}
		copy(kept.Bytes, "in use")
		for size := 4096; size <= 1<<20; size *= 2 {
			var all []*Buffer
			for {
				b, err := p.Try(budget, size)
				if err != nil {
					t.Fatal(err)
				}
				if b == nil {
					break
				}
				b.Bytes[0], b.Bytes[size-1] = 1, 1
				all = append(all, b)
			}
			if size > 4096 && len(all) != limit/size-1 {
				t.Errorf("%d bytes: %d buffers", size, len(all))
			}
			for _, b := range all {
				p.Put(b)
			}
			if n := len(p.chunks); p.size > limit+1<<20 || n != p.size>>20 {
				t.Errorf("after buffers of %d bytes the pool keeps %d bytes in %d chunks", size, p.size, n)
			}
		}
		if string(kept.Bytes[:6]) != "in use" {
			t.Error("a buffer in use was freed")
		}
		p.Put(kept)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBudgetsAreServedInOrder: a large request is not passed over by small ones, and another budget has
// buffers all the time.
func TestBudgetsAreServedInOrder(t *testing.T) {
	withPD(t, func(t *testing.T, pd *verbs.PD) {
		p, budget := NewPool(pd, 64<<10), NewBudget(64<<10)
		small, err := p.Try(budget, 4096)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		large := make(chan *Buffer)
		get := func(done <-chan struct{}) {
			b, err := p.Get(budget, 64<<10, done)
			if err != nil {
				t.Error(err)
			}
			large <- b
		}
		go get(done)
		synctest.Wait()
		if b, err := p.Try(budget, 4096); b != nil || err != nil {
			t.Errorf("a small request has passed a large one: %v, %v", b, err)
		}
		if b, err := p.Try(NewBudget(4096), 4096); b == nil || err != nil {
			t.Errorf("another budget: %v, %v", b, err)
		}
		go get(nil)
		synctest.Wait()
		close(done)
		if b := <-large; b != nil {
			t.Error("a buffer although done is closed")
		}
		p.Put(small)
		if b := <-large; b == nil {
			t.Error("no buffer although the budget is free")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
