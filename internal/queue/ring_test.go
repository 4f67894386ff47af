package queue

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"softrdma/internal/memory"
)

func TestRingHoldsAtLeastItsDepth(t *testing.T) {
	for depth, want := range map[int]int{0: 0, 1: 1, 2: 3, 3: 3, 4: 7, 100: 127, 127: 127, 128: 255} {
		if got := NewCompletionRing(depth).Depth(); got != want {
			t.Errorf("depth %d: the ring holds %d, want %d", depth, got, want)
		}
	}
}

func TestRingTakesMemoryWithItsFirstEntry(t *testing.T) {
	r := NewSendRing(100, 4, 0)
	r.Publish(r.Producer())
	r.Release(r.Producer())
	if r.Len() != 0 || r.Full() || r.Consumer() != 0 || r.Depth() != 127 {
		t.Errorf("unused: %d entries from %d, depth %d", r.Len(), r.Consumer(), r.Depth())
	}
	if r.h.Load() != nil {
		t.Error("an unused ring holds memory")
	}
	r.At(0).WRID = 7
	r.Publish(1)
	if r.Len() != 1 || r.At(r.Consumer()).WRID != 7 {
		t.Errorf("%d entries, the first is %+v", r.Len(), r.At(0))
	}
}

func TestRingFullEmptyAndWrap(t *testing.T) {
	r := NewCompletionRing(3)
	next := uint64(0) // written
	read := uint64(0)
	for round := range 20 {
		if r.Len() != 0 || r.Full() || r.Producer() != r.Consumer() {
			t.Fatalf("round %d: an empty ring has %d entries", round, r.Len())
		}
		for i := range 3 {
			if r.Full() {
				t.Fatalf("round %d: full with %d entries", round, i)
			}
			p := r.Producer()
			r.At(p).WRID = next
			next++
			r.Publish(r.Next(p))
			if r.Len() != i+1 {
				t.Fatalf("round %d: %d entries, want %d", round, r.Len(), i+1)
			}
		}
		if !r.Full() || r.Distance(r.Consumer(), r.Producer()) != 3 {
			t.Fatalf("round %d: not full with 3 entries", round)
		}
		for i := r.Consumer(); i != r.Producer(); i = r.Next(i) {
			if r.At(i).WRID != read {
				t.Fatalf("found %d, want %d", r.At(i).WRID, read)
			}
			read++
		}
		r.Release(r.Producer())
	}
	if read != 60 {
		t.Fatalf("read %d of 60", read)
	}
}

func TestRingMasksForeignIndices(t *testing.T) {
	// Another process may write any values into the indices.
	r := NewCompletionRing(3)
	r.At(0) // allocates memory
	r.h.Load().producer.Store(0xdeadbeef)
	r.h.Load().consumer.Store(0x12345678)
	if r.Len() > r.Depth() || r.Producer() > 3 || r.Consumer() > 3 {
		t.Errorf("%d entries from %d to %d", r.Len(), r.Consumer(), r.Producer())
	}
	r.h.Load().log2ElemSize, r.h.Load().indexMask = 31, ^uint32(0)
	r.At(0xffffffff).WRID = 1
	if r.At(3).WRID != 1 {
		t.Error("an index out of range is not masked")
	}
}

func TestRingSlotsDoNotOverlap(t *testing.T) {
	s := NewSendRing(3, 5, 100)
	for i := range uint32(4) {
		*s.At(i) = SendWQE{WRID: uint64(i), NumSGE: 5, Length: 1000 + i}
		for k := range s.SGERoom(i) {
			s.SGERoom(i)[k] = memory.SGE{Addr: uint64(i), Length: uint32(k), LKey: 9}
		}
	}
	r := NewRecvRing(3, 2)
	for i := range uint32(4) {
		*r.At(i) = RecvWQE{WRID: uint64(i), NumSGE: 2}
		r.SGERoom(i)[1] = memory.SGE{Addr: uint64(i)}
	}
	for i := range uint32(4) {
		if w := s.At(i); w.WRID != uint64(i) || w.Length != 1000+i || len(s.SGEs(i)) != 5 || s.SGEs(i)[4] != (memory.SGE{Addr: uint64(i), Length: 4, LKey: 9}) {
			t.Errorf("send request %d: %+v %+v", i, w, s.SGEs(i))
		}
		if r.At(i).WRID != uint64(i) || r.SGEs(i)[1].Addr != uint64(i) {
			t.Errorf("receive request %d: %+v %+v", i, r.At(i), r.SGEs(i))
		}
	}
}

func TestRequestCountsAreClipped(t *testing.T) {
	s, r := NewSendRing(1, 2, 10), NewRecvRing(1, 2)
	for _, n := range []uint32{3, 1 << 31, ^uint32(0)} {
		s.At(0).NumSGE, s.At(0).Length, r.At(0).NumSGE = n, n+8, n
		if len(s.SGEs(0)) != 2 || len(r.SGEs(0)) != 2 {
			t.Errorf("%#x entries: %d and %d", n, len(s.SGEs(0)), len(r.SGEs(0)))
		}
		if got, want := len(s.InlineData(0)), int(min(n+8, 10)); got != want {
			t.Errorf("%#x bytes inline: %d, want %d", n+8, got, want)
		}
	}
	s.At(0).Length = 4
	copy(s.InlineRoom(0), "inline")
	if string(s.InlineData(0)) != "inli" || len(s.InlineRoom(0)) != 10 {
		t.Errorf("found %q", s.InlineData(0))
	}
}

func TestRingOneProducerOneConsumer(t *testing.T) {
	const total = 20000
	r := NewSendRing(7, 1, 0)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for n := uint64(0); n < total; {
			if r.Full() {
				runtime.Gosched()
				continue
			}
			p := r.Producer()
			*r.At(p) = SendWQE{WRID: n, Length: uint32(n) * 3, NumSGE: 1}
			r.SGERoom(p)[0] = memory.SGE{Addr: n ^ 0xff}
			r.Publish(r.Next(p))
			n++
		}
	}()
	for n := uint64(0); n < total; {
		c := r.Consumer()
		if c == r.Producer() {
			runtime.Gosched()
			continue
		}
		if w := r.At(c); w.WRID != n || w.Length != uint32(n)*3 || r.SGEs(c)[0].Addr != n^0xff {
			t.Fatalf("entry %d: found %+v %+v", n, w, r.SGEs(c))
		}
		*r.At(c) = SendWQE{} // the slot belongs to the consumer until released
		r.Release(r.Next(c))
		n++
	}
	wg.Wait()
	if r.Len() != 0 {
		t.Errorf("%d entries left", r.Len())
	}
}

func TestNetworkOrderIsTheWiresBytes(t *testing.T) {
	e := CQE{ImmInv: NetworkOrder(0x01020304)}
	if b := (*[4]byte)(unsafe.Pointer(&e.ImmInv)); *b != [4]byte{1, 2, 3, 4} {
		t.Errorf("found % x", *b)
	}
	if NetworkOrder(NetworkOrder(0xabcdef01)) != 0xabcdef01 {
		t.Error("not its own inverse")
	}
}
