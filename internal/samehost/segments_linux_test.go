package samehost

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
)

func TestSegmentIsOfferedMappedAndWithdrawn(t *testing.T) {
	var lane sync.Mutex // of b
	barriers := make(chan struct{}, 8)
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2, Barrier: func() {
		lane.Lock()
		defer lane.Unlock()
		barriers <- struct{}{}
	}})
	segment := func(c *hostmem.Channel, id uint32) string {
		lane.Lock()
		defer lane.Unlock()
		return string(c.Far.Segment(id))
	}
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	ca, cb := only(t, a), only(t, b)
	g := newSegment(t, 8192)
	copy(g.Mem[5000:], "shared")
	before := holding(t)
	for range 3 { // offer and withdraw a segment
		ca.Far.Offer(g)
		ca.Far.Offer(g)
		eventually(t, "the segment is mapped", func() bool { return ca.Far.Offered(g.ID) })
		if m := segment(cb, g.ID); m != string(g.Mem) {
			t.Fatalf("%d other bytes", len(m))
		}
		lane.Lock()
		n := testing.AllocsPerRun(100, func() { ca.Far.Offer(g); ca.Far.Offered(g.ID); cb.Far.Segment(g.ID) })
		lane.Unlock()
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
		ca.Far.Withdraw(g.ID)
		if ca.Far.Offered(g.ID) {
			t.Error("a withdrawn segment counts as mapped")
		}
		<-barriers
		eventually(t, "the segment is unmapped", func() bool { return segment(cb, g.ID) == "" })
	}
	unchanged(t, before)
	if cb.Far.Segment(g.ID+1) != nil || ca.Far.Offered(g.ID+1) {
		t.Error("an unknown segment is mapped")
	}
}

// The peer maps a segment for reading only, and its descriptor gives no other right.
func TestSegmentDescriptorIsReadOnly(t *testing.T) {
	g := newSegment(t, 4096)
	fd := readOnly(g)
	if fd < 0 {
		t.Fatal("no descriptor")
	}
	defer unix.Close(fd)
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("the descriptor can be mapped for writing")
	}
	if _, err := unix.Write(fd, []byte{1}); err == nil {
		t.Error("the descriptor can be written")
	}
	g.Close()
	if fd := readOnly(g); fd >= 0 {
		t.Errorf("a closed segment has descriptor %d", fd)
	}
}
