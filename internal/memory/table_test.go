package memory

import (
	"errors"
	"math"
	"math/bits"
	"sync"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

const (
	pd  = 3
	qpn = 0x111
)

// register makes a region of n bytes at base.
func register(t testing.TB, x *Table, n int, base uint64, access qp.Access) *Region {
	t.Helper()
	r, err := x.Register(pd, make([]byte, n), base, access)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantReason(t *testing.T, what string, d reason.Detail, want reason.Reason) {
	t.Helper()
	if d.Reason != want {
		t.Errorf("%s: found %v, want %v", what, d.Reason, want)
	}
}

func TestRegisterRefusals(t *testing.T) {
	x := NewTable()
	for _, c := range []struct {
		access qp.Access
		base   uint64
		n      int
		want   error
	}{
		{0, 0, 10, nil},
		{qp.RemoteRead, 1 << 40, 10, nil},
		{qp.RemoteWrite | qp.LocalWrite, 0, 0, nil},
		{qp.RemoteWrite, 0, 10, ErrAccess},
		{qp.RemoteAtomic | qp.RemoteRead, 0, 10, ErrAccess},
		{0, ^uint64(0) - 9, 10, ErrBounds},
		{0, ^uint64(0), 10, ErrBounds},
		{0, ^uint64(0) - 10, 10, nil},
	} {
		before := x.Count()
		r, err := x.Register(pd, make([]byte, c.n), c.base, c.access)
		if !errors.Is(err, c.want) {
			t.Errorf("access %v at %#x: found %v, want %v", c.access, c.base, err, c.want)
		}
		if ok := err == nil; ok != (r != nil) || x.Count()-before == 1 != ok {
			t.Errorf("access %v at %#x: %v, region %v, %d more", c.access, c.base, err, r, x.Count()-before)
		}
	}
}

func TestLookupNeedsTheWholeKey(t *testing.T) {
	x := NewTable()
	r := register(t, x, 8, 0, 0)
	if x.Lookup(r.Key) != r {
		t.Error("not found by its key")
	}
	for i := range 32 {
		if x.Lookup(r.Key^1<<i) != nil {
			t.Errorf("found with bit %d of the key wrong", i)
		}
	}
}

func TestKeysAreUnpredictable(t *testing.T) {
	// 4096 keys: no two are equal, each bit is set in about half (6 sigma: 192), and no
	// difference between neighbours is common.
	x := NewTable()
	seen, steps := map[uint32]bool{}, map[uint32]int{}
	var ones [32]int
	last := uint32(0)
	for range 4096 {
		k := register(t, x, 1, 0, 0).Key
		if seen[k>>indexShift] || k>>indexShift == 0 {
			t.Fatalf("key %#x: index used twice, or 0", k)
		}
		seen[k>>indexShift] = true
		steps[k-last]++
		last = k
		for v := k; v != 0; v &= v - 1 {
			ones[bits.TrailingZeros32(v)]++
		}
	}
	for i, n := range ones {
		if n < 2048-192 || n > 2048+192 {
			t.Errorf("bit %d is set in %d of 4096 keys", i, n)
		}
	}
	for s, n := range steps {
		if n > 3 {
			t.Errorf("step %#x occurs %d times", s, n)
		}
	}
}

func TestDeregisterInvalidatesKey(t *testing.T) {
	x := NewTable()
	r := register(t, x, 8, 0, 0)
	if err := x.Deregister(r); err != nil {
		t.Fatal(err)
	}
	if x.Lookup(r.Key) != nil || r.Valid() || x.Count() != 0 {
		t.Error("the region is still there")
	}
	wantReason(t, "access to it", r.CheckRemote(pd, qpn, 0, 1, 0), reason.KeyInvalid)
	if err := x.Deregister(r); !errors.Is(err, ErrKey) {
		t.Errorf("again: %v", err)
	}
	key, _ := x.AllocWindow(pd, MW1)
	if err := x.Deregister(x.Lookup(key)); !errors.Is(err, ErrKey) {
		t.Errorf("a window: %v", err)
	}
}

func TestReregisterReplacesKey(t *testing.T) {
	x := NewTable()
	old := register(t, x, 8, 0x100, 0)
	old.mem[0] = 7
	r, err := x.Reregister(old, 5, nil, 0, qp.RemoteRead, nil)
	if err != nil || r.PD != 5 || r.Base != 0x100 || r.Access != qp.RemoteRead || r.mem[0] != 7 || x.Lookup(old.Key) != nil || x.Count() != 1 {
		t.Fatalf("found %+v, %v", r, err)
	}
	if _, err := x.Reregister(r, 5, nil, 0, qp.RemoteWrite, nil); !errors.Is(err, ErrAccess) || x.Lookup(r.Key) != r || x.Count() != 1 {
		t.Errorf("refused change of rights: %v, %d regions", err, x.Count())
	}
	if _, err := x.Reregister(old, 5, nil, 0, 0, nil); !errors.Is(err, ErrKey) || x.Count() != 1 {
		t.Errorf("region that is gone: %v, %d regions", err, x.Count())
	}
	r2, err := x.Reregister(r, 5, make([]byte, 3), 0x900, 0, nil)
	if err != nil || r2.Len() != 3 || r2.Base != 0x900 {
		t.Errorf("other memory: %+v, %v", r2, err)
	}
}

func TestCheckRemoteRefusals(t *testing.T) {
	x := NewTable()
	r := register(t, x, 100, 1000, qp.LocalWrite|qp.RemoteRead)
	for _, c := range []struct {
		pd      uint32
		addr, n uint64
		access  qp.Access
		want    reason.Reason
	}{
		{pd, 1000, 100, qp.RemoteRead, reason.None},
		{pd, 1100, 0, qp.RemoteRead, reason.None},
		{pd, 1000, 100, qp.RemoteWrite, reason.KeyAccess},
		{pd, 1000, 100, qp.RemoteRead | qp.RemoteAtomic, reason.KeyAccess},
		{pd + 1, 1000, 100, qp.RemoteRead, reason.KeyWrongPD},
		{pd, 999, 1, qp.RemoteRead, reason.KeyBounds},
		{pd, 1000, 101, qp.RemoteRead, reason.KeyBounds},
		{pd, 1101, 0, qp.RemoteRead, reason.KeyBounds},
		{pd, 1001, ^uint64(0), qp.RemoteRead, reason.KeyBounds},
		{pd, ^uint64(0), 1001, qp.RemoteRead, reason.KeyBounds}, // ends at 1000
		{pd, ^uint64(0) - 99, 1200, qp.RemoteRead, reason.KeyBounds},
		{pd, 0, 1100, qp.RemoteRead, reason.KeyBounds},
	} {
		if d := r.CheckRemote(c.pd, qpn, c.addr, c.n, c.access); d.Reason != c.want {
			t.Errorf("%+v: found %v", c, d)
		}
	}
	if d := r.CheckRemote(pd, qpn, 1001, ^uint64(0), qp.RemoteRead); d.Found != ^uint64(0) || d.Expected != 1100 {
		t.Errorf("an end beyond the address space: %v", d)
	}
}

func TestBytesAndWordStayInside(t *testing.T) {
	x := NewTable()
	r := register(t, x, 64, 1000, 0)
	for _, c := range []struct {
		addr uint64
		n    int
		want bool
	}{
		{1000, 64, true}, {1063, 1, true}, {1064, 0, true}, {1000, 65, false}, {1064, 1, false}, {999, 1, false},
		{1000, -1, false}, {^uint64(0), 1001, false}, {0, math.MaxInt, false},
	} {
		b := r.Bytes(c.addr, c.n)
		if (b != nil) != c.want || c.want && (len(b) != c.n || cap(b) != c.n) {
			t.Errorf("%d bytes at %d: found %d of %d", c.n, c.addr, len(b), cap(b))
		}
	}
	if w := r.Word(1008); w == nil {
		t.Error("no word inside")
	} else if *w = 1; r.mem[8]|r.mem[15] != 1 {
		t.Error("the word is another")
	}
	for _, addr := range []uint64{1057, 1064, 1001, 992, ^uint64(0) - 3} {
		if r.Word(addr) != nil {
			t.Errorf("a word at %d", addr)
		}
	}
}

func TestLookupDuringChanges(t *testing.T) {
	x := NewTable()
	keep := register(t, x, 8, 0, qp.RemoteRead|qp.LocalWrite|qp.MWBind)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 300 {
				r, err := x.Register(pd, make([]byte, 8), 0, 0)
				if err != nil {
					t.Error(err)
					return
				}
				key, err := x.AllocWindow(pd, MW2)
				if err != nil {
					t.Error(err)
					return
				}
				b := Bind{Window: key, NewKey: key ^ 1, Region: keep.Key, Length: 8, Access: qp.RemoteRead, PD: pd, QPN: qpn}
				wantReason(t, "bind", x.Bind(&b), reason.None)
				if w := x.Lookup(key ^ 1); w == nil || w.CheckRemote(pd, qpn, 0, 8, qp.RemoteRead).Reason != reason.None {
					t.Error("a bound window does not work")
				}
				wantReason(t, "invalidate", x.Invalidate(key^1, pd, qpn), reason.None)
				if x.FreeWindow(key) != nil || x.Deregister(r) != nil || x.Lookup(r.Key) != nil {
					t.Error("not taken away")
				}
			}
		})
	}
	for range 2000 {
		if x.Lookup(keep.Key) != keep || keep.CheckRemote(pd, qpn, 0, 8, qp.RemoteRead).Reason != reason.None {
			t.Error("a region was lost")
			break
		}
	}
	wg.Wait()
	if x.Count() != 1 || x.Deregister(keep) != nil {
		t.Errorf("%d regions left, %d windows on the one", x.Count(), keep.windows.Load())
	}
}

func FuzzCheckRemote(f *testing.F) {
	f.Add(uint64(1000), 100, uint64(1000), uint64(100))
	f.Add(uint64(1)<<63, 100, ^uint64(0), uint64(1))
	f.Add(^uint64(0)-200, 100, ^uint64(0)-150, ^uint64(0))
	f.Fuzz(func(t *testing.T, base uint64, size int, addr, n uint64) {
		x := NewTable()
		r, err := x.Register(pd, make([]byte, size&0xffff), base, qp.RemoteRead)
		if err != nil {
			return
		}
		// The 128-bit sum cannot wrap.
		end, over := bits.Add64(addr, n, 0)
		inside := addr >= base && over == 0 && end <= base+r.Len()
		d := r.CheckRemote(pd, qpn, addr, n, qp.RemoteRead)
		if (d.Reason == reason.None) != inside {
			t.Fatalf("%d bytes at %#x of %d at %#x: inside is %v, found %v", n, addr, r.Len(), base, inside, d)
		}
		if b := r.Bytes(addr, int(n)); (b != nil) != inside {
			t.Fatalf("%d bytes at %#x of %d at %#x: inside is %v, found %d bytes", n, addr, r.Len(), base, inside, len(b))
		}
	})
}
