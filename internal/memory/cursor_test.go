package memory

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

func TestCursorRefusals(t *testing.T) {
	x := NewTable()
	r := register(t, x, 100, 1000, qp.LocalWrite)
	readOnly := register(t, x, 100, 1000, 0)
	gone := register(t, x, 100, 1000, qp.LocalWrite)
	if err := x.Deregister(gone); err != nil {
		t.Fatal(err)
	}
	other, err := x.Register(pd+1, make([]byte, 100), 1000, qp.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	mw, _ := x.AllocWindow(pd, MW1)
	b := Bind{Window: mw, NewKey: mw, Region: register(t, x, 100, 1000, bindable).Key, Addr: 1000, Length: 100, Access: qp.RemoteRead, PD: pd}
	wantReason(t, "bind", x.Bind(&b), reason.None)
	for name, c := range map[string]struct {
		e    SGE
		n    int
		want reason.Reason
	}{
		"whole":         {SGE{1000, 100, r.Key}, 100, reason.None},
		"part":          {SGE{1000, 100, r.Key}, 3, reason.None},
		"beyond list":   {SGE{1000, 99, r.Key}, 100, reason.LocalLength},
		"bounds above":  {SGE{1001, 100, r.Key}, 1, reason.LocalBounds},
		"bounds below":  {SGE{999, 10, r.Key}, 10, reason.LocalBounds},
		"overflow":      {SGE{^uint64(0), 1 << 31, r.Key}, 1, reason.LocalBounds},
		"to 1000 again": {SGE{^uint64(0) - 9, 1010, r.Key}, 1010, reason.LocalBounds},
		"unknown":       {SGE{1000, 100, r.Key ^ 1}, 1, reason.LocalKey},
		"gone":          {SGE{1000, 100, gone.Key}, 1, reason.LocalKey},
		"another PD":    {SGE{1000, 100, other.Key}, 1, reason.LocalKey},
		"window":        {SGE{1000, 100, mw}, 1, reason.LocalKey},
		"not writable":  {SGE{1000, 100, readOnly.Key}, 1, reason.LocalAccess},
	} {
		var s, g Cursor
		wantReason(t, name+", scattered", s.Scatter(x, pd, []SGE{c.e}, 0, make([]byte, c.n)), c.want)
		if name != "beyond list" && name != "part" {
			wantReason(t, name+", checked", x.CheckList(pd, []SGE{{0, 0, 0}, c.e}, qp.LocalWrite), c.want)
		}
		if c.want == reason.LocalAccess {
			c.want = reason.None
		}
		_, d := g.Gather(x, pd, []SGE{c.e}, 0, c.n, nil)
		wantReason(t, name+", gathered", d, c.want)
	}
}

func TestCursorDoesNotCarryRightsOver(t *testing.T) {
	x := NewTable()
	r := register(t, x, 100, 0, 0)
	list := []SGE{{0, 100, r.Key}}
	var c Cursor
	if _, d := c.Gather(x, pd, list, 0, 10, nil); d.Reason != reason.None {
		t.Fatal(d)
	}
	wantReason(t, "scatter with the gathering cursor", c.Scatter(x, pd, list, 10, []byte{1}), reason.LocalAccess)
	if r.mem[10] != 0 {
		t.Error("written")
	}
}

func TestCursorSeesRegionGoHalfWay(t *testing.T) {
	x := NewTable()
	r := register(t, x, 100, 0, qp.LocalWrite)
	list := []SGE{{0, 100, r.Key}}
	var c Cursor
	wantReason(t, "first", c.Scatter(x, pd, list, 0, make([]byte, 10)), reason.None)
	if err := x.Deregister(r); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "second", c.Scatter(x, pd, list, 10, []byte{1}), reason.LocalKey)
	c.Restart()
	wantReason(t, "another list", c.Scatter(x, pd, list, 0, []byte{1}), reason.LocalKey)
	if bytes.IndexByte(r.mem, 1) >= 0 {
		t.Error("written")
	}
}

// TestCursorFollowsFlatModel compares a cursor over random lists with one flat
// slice: sequential and backward positions, on one cursor for many lists.
func TestCursorFollowsFlatModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	x := NewTable()
	var regions []*Region
	for i := range 3 {
		r := register(t, x, 200, uint64(i)<<40, qp.LocalWrite)
		for k := range r.mem {
			r.mem[k] = byte(rnd.Uint32())
		}
		regions = append(regions, r)
	}
	var gather, scatter Cursor
	for range 2000 {
		// Entries are in parts of the regions that do not overlap.
		var list []SGE
		var flat []*byte
		for _, r := range regions {
			for part := range 2 {
				n := rnd.IntN(60)
				if rnd.IntN(4) == 0 {
					n = 0
				}
				off := part*100 + rnd.IntN(100-n)
				list = append(list, SGE{r.Base + uint64(off), uint32(n), r.Key})
				for k := range n {
					flat = append(flat, &r.mem[off+k])
				}
			}
		}
		gather.Restart()
		scatter.Restart()
		pos := 0
		for range 10 {
			if rnd.IntN(3) == 0 {
				pos = rnd.IntN(len(flat) + 1)
			}
			n := rnd.IntN(len(flat) - pos + 1)
			pieces, d := gather.Gather(x, pd, list, uint64(pos), n, nil)
			wantReason(t, "gather", d, reason.None)
			got := bytes.Join(pieces, nil)
			if len(got) != n {
				t.Fatalf("%d bytes at %d: found %d", n, pos, len(got))
			}
			data := make([]byte, n)
			for i := range data {
				if got[i] != *flat[pos+i] {
					t.Fatalf("%d bytes at %d: byte %d differs", n, pos, i)
				}
				data[i] = byte(rnd.Uint32())
			}
			wantReason(t, "scatter", scatter.Scatter(x, pd, list, uint64(pos), data), reason.None)
			for i := range data {
				if *flat[pos+i] != data[i] {
					t.Fatalf("%d bytes written at %d: byte %d differs", n, pos, i)
				}
			}
			pos += n
		}
		if _, d := gather.Gather(x, pd, list, uint64(len(flat)), 1, nil); d.Reason != reason.LocalLength {
			t.Fatalf("beyond the list: %v", d)
		}
	}
}

func TestCursorDoesNotAllocate(t *testing.T) {
	x := NewTable()
	r := register(t, x, 4096, 0, qp.LocalWrite)
	list := []SGE{{0, 1000, r.Key}, {2000, 1000, r.Key}}
	pieces, data := make([][]byte, 0, 4), make([]byte, 256)
	var c Cursor
	if n := testing.AllocsPerRun(100, func() {
		c.Restart()
		for pos := uint64(0); pos < 1700; pos += 256 {
			pieces, _ = c.Gather(x, pd, list, pos, 256, pieces[:0])
			c.Scatter(x, pd, list, pos, data)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(uint64(0), uint32(100), uint64(50), uint32(60), uint64(90), 20, uint64(1000))
	f.Add(^uint64(0), uint32(1<<31), ^uint64(0)-5, ^uint32(0), uint64(1)<<32, 1000, ^uint64(0)-100)
	f.Fuzz(func(t *testing.T, a1 uint64, n1 uint32, a2 uint64, n2 uint32, pos uint64, n int, base uint64) {
		x := NewTable()
		r, err := x.Register(pd, make([]byte, 256), base, qp.LocalWrite)
		if err != nil {
			return
		}
		list := []SGE{{a1, n1, r.Key}, {a2, n2, r.Key}}
		n &= 0x3ff
		var c Cursor
		pieces, d := c.Gather(x, pd, list, pos, n, nil)
		got := 0
		for _, p := range pieces {
			got += len(p)
			if len(p) == 0 || Addr(p) < Addr(r.mem) || Addr(p)+uint64(len(p)) > Addr(r.mem)+256 {
				t.Fatalf("piece of %d bytes at %#x, region at %#x", len(p), Addr(p), Addr(r.mem))
			}
		}
		if d.Reason == reason.None && got != n {
			t.Fatalf("%d bytes of %d without an error", got, n)
		}
		total := uint64(n1) + uint64(n2)
		if d.Reason == reason.None && n > 0 && (pos >= total || uint64(n) > total-pos) {
			t.Fatalf("%d bytes at %d of a list of %d", n, pos, total)
		}
		// Scatter on the same cursor agrees.
		if s := c.Scatter(x, pd, list, pos, make([]byte, n)); s.Reason != d.Reason {
			t.Fatalf("gather %v, scatter %v", d, s)
		}
	})
}

func TestCursorWholeIsOnlyTheRegionThatItKnows(t *testing.T) {
	x := NewTable()
	r, other := register(t, x, 100, 1000, 0), register(t, x, 100, 1000, 0)
	e := SGE{1010, 20, r.Key}
	var c Cursor
	if c.Whole(&e, 20) != nil {
		t.Error("bytes of a region that was not checked")
	}
	if _, d := c.Gather(x, pd, []SGE{e}, 0, 20, nil); d.Reason != reason.None {
		t.Fatal(d)
	}
	if b := c.Whole(&e, 20); len(b) != 20 || &b[0] != &r.mem[10] {
		t.Errorf("%d bytes, expected 20 of the region", len(b))
	}
	for name, e := range map[string]SGE{
		"another key": {1010, 20, other.Key}, "beyond the region": {1081, 20, r.Key}, "before it": {999, 20, r.Key},
	} {
		if c.Whole(&e, 20) != nil {
			t.Error(name)
		}
	}
	if err := x.Deregister(r); err != nil {
		t.Fatal(err)
	}
	if c.Whole(&e, 20) != nil {
		t.Error("bytes of a region that is gone")
	}
}
