package memory

import (
	"sync"
	"testing"

	"softrdma/internal/qp"
)

const pageSize = 4096

// segment makes a segment of n bytes in whole pages, without a file.
func segment(n int) *Segment {
	return NewSegment(make([]byte, (n+pageSize-1)/pageSize*pageSize), n, 0)
}

func registerIn(t *testing.T, x *Table, s *Segment, mem []byte) *Region {
	t.Helper()
	r, err := x.RegisterSegment(pd, mem, Addr(mem), qp.LocalWrite, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSegmentIsFoundWhileARegionCoversIt(t *testing.T) {
	x, s := NewTable(), segment(3*pageSize-100)
	whole := s.Mem[:3*pageSize-100]
	a, b := registerIn(t, x, s, whole), registerIn(t, x, s, whole)
	for _, off := range []uint64{0, 1, 2*pageSize + 7, 3*pageSize - 1} {
		if got := x.Segments.Find(Addr(s.Mem) + off); got != s {
			t.Errorf("byte %d: found %v", off, got)
		}
	}
	for _, addr := range []uint64{0, Addr(s.Mem) - 1, Addr(s.Mem) + 3*pageSize, 1<<64 - 1} {
		if got := x.Segments.Find(addr); got != nil {
			t.Errorf("address %#x outside of the segment: found it", addr)
		}
	}
	for i, r := range []*Region{a, b} {
		if err := x.Deregister(r); err != nil {
			t.Fatal(err)
		}
		if got := x.Segments.Find(Addr(s.Mem)); (got != nil) != (i == 0) {
			t.Errorf("after deregistering %d of 2 regions: found %v", i+1, got)
		}
	}
}

func TestSegmentIsNotFoundForARegionOfLess(t *testing.T) {
	x, s := NewTable(), segment(2*pageSize)
	for name, mem := range map[string][]byte{
		"without the first byte": s.Mem[1:], "without the last byte": s.Mem[:2*pageSize-1],
		"one page": s.Mem[pageSize:], "no bytes": s.Mem[:0],
	} {
		r := registerIn(t, x, s, mem)
		if r.Segment() != nil || x.Segments.Find(Addr(s.Mem)) != nil {
			t.Errorf("region %s: its segment can be offered", name)
		}
	}
}

func TestReregisterChangesSegment(t *testing.T) {
	x, s, other := NewTable(), segment(pageSize), segment(pageSize)
	r := registerIn(t, x, s, s.Mem)
	r, err := x.Reregister(r, pd, nil, 0, qp.LocalWrite|qp.RemoteRead, nil)
	if err != nil || r.Segment() != s || x.Segments.Find(Addr(s.Mem)) != s {
		t.Fatalf("the same memory with other rights: segment %v, %v", r.Segment(), err)
	}
	r, err = x.Reregister(r, pd, other.Mem, Addr(other.Mem), qp.LocalWrite, other)
	if err != nil || r.Segment() != other || x.Segments.Find(Addr(other.Mem)) != other || x.Segments.Find(Addr(s.Mem)) != nil {
		t.Fatalf("other memory: segment %v, %v", r.Segment(), err)
	}
}

func TestSegmentsAreFoundWhileOthersChange(t *testing.T) {
	x, s := NewTable(), segment(pageSize)
	registerIn(t, x, s, s.Mem)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				o := segment(pageSize)
				r, err := x.RegisterSegment(pd, o.Mem, Addr(o.Mem), qp.LocalWrite, o)
				if err != nil {
					t.Error(err)
					return
				}
				if x.Segments.Find(Addr(o.Mem)+1) != o || x.Segments.Find(Addr(s.Mem)+1) != s {
					t.Error("segment not found")
				}
				if err := x.Deregister(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestClosedSegmentLendsNoDescriptor(t *testing.T) {
	s := NewSegment(make([]byte, pageSize), pageSize, 7)
	found := -1
	if !s.Use(func(fd int) { found = fd }) || found != 7 {
		t.Fatalf("open segment: descriptor %d", found)
	}
	s.Close()
	if s.Use(func(int) { t.Error("used") }) {
		t.Fatal("the closed segment says that it is open")
	}
}
