package verbs_test

import (
	"errors"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/verbs"
)

func TestViewShowsThePeersMemory(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		if a.qp.Path() == verbs.PathNetwork {
			return // TestViewsThatAreImpossibleAreRefused
		}
		const at, n = 5000, 3000
		v, err := a.qp.View(t.Context(), b.mr.Addr()+at, b.mr.RKey(), n)
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.qp.View(t.Context(), b.mr.Addr(), b.mr.RKey(), len(b.buf))
		if err != nil {
			t.Fatal(err)
		}
		for round := range uint64(3) { // including what is stored later
			fill(b.buf, round)
			if string(v.Bytes()) != string(b.buf[at:][:n]) || string(again.Bytes()) != string(b.buf) {
				t.Fatalf("round %d: other bytes", round)
			}
		}
		for range 2 {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := b.mr.Deregister(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.qp.View(t.Context(), b.mr.Addr(), b.mr.RKey(), 8); err == nil {
			t.Error("a view of a region that has ended")
		}
		b.buf[at]++
		if again.Bytes()[at] != b.buf[at] {
			t.Error("a view ends with the region")
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Mapped memory is unmapped when both its views and the region have ended, in any order.
func TestViewsLeaveNoMapping(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		if a.qp.Path() == verbs.PathNetwork {
			return
		}
		before := testenv.Mappings(t)
		for _, viewFirst := range []bool{true, false} {
			m, err := verbs.AllocMemory(64<<10, verbs.AllocConfig{})
			if err != nil {
				t.Fatal(err)
			}
			mr, err := b.pd.RegisterMemory(m.Bytes(), allRights)
			if err != nil {
				t.Fatal(err)
			}
			v, err := a.qp.View(t.Context(), mr.Addr(), mr.RKey(), mr.Len())
			if err != nil {
				t.Fatal(err)
			}
			if n := testenv.Mappings(t); n != before+2 {
				t.Errorf("%d mappings, expected %d", n, before+2)
			}
			end := func() {
				if err := errors.Join(mr.Deregister(), m.Free()); err != nil {
					t.Fatal(err)
				}
			}
			if !viewFirst {
				end()
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			if viewFirst {
				end()
			}
			for limit := time.Now().Add(20 * time.Second); testenv.Mappings(t) > before; time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("view closed first %v: %d mappings, expected %d", viewFirst, testenv.Mappings(t), before)
				}
			}
		}
	})
}

func TestViewsThatAreImpossibleAreRefused(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		register := func(buf []byte, access verbs.Access) *verbs.MR {
			mr, err := b.pd.RegisterMemory(buf, access)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = mr.Deregister() })
			return mr
		}
		heap := register(make([]byte, 32<<10), allRights)
		small := register(alloc(t, 8<<10, verbs.AllocConfig{}), allRights)
		part := register(alloc(t, 64<<10, verbs.AllocConfig{})[:32<<10], allRights)
		writable := register(alloc(t, 32<<10, verbs.AllocConfig{}), verbs.LocalWrite|verbs.RemoteWrite)
		for name, x := range map[string]struct {
			addr uint64
			key  uint32
			n    int
		}{
			"no bytes":                 {b.mr.Addr(), b.mr.RKey(), 0},
			"more than there is":       {b.mr.Addr(), b.mr.RKey(), b.mr.Len() + 1},
			"beyond the end":           {b.mr.Addr() + uint64(b.mr.Len()), b.mr.RKey(), 1},
			"before the beginning":     {b.mr.Addr() - 1, b.mr.RKey(), 1},
			"another key":              {b.mr.Addr(), b.mr.RKey() + 1, 1},
			"Go memory":                {heap.Addr(), heap.RKey(), 1},
			"a small allocation":       {small.Addr(), small.RKey(), 1},
			"a part of an allocation":  {part.Addr(), part.RKey(), 1},
			"a region not for reading": {writable.Addr(), writable.RKey(), 1},
		} {
			if v, err := a.qp.View(t.Context(), x.addr, x.key, x.n); err == nil {
				t.Errorf("%s: a view of %d bytes", name, len(v.Bytes()))
			}
		}
		_, err := a.qp.View(t.Context(), b.mr.Addr(), b.mr.RKey(), 1)
		if (err != nil) != (a.qp.Path() == verbs.PathNetwork) {
			t.Errorf("a region over shared memory: %v", err)
		}
	})
}
