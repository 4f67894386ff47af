package samehost

import (
	"bytes"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
)

func TestPeersReadEachOthersMemory(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	ca, cb := only(t, a), only(t, b)
	if !ca.PeerReads() || !cb.PeerReads() {
		t.Fatal("a process cannot read its own memory")
	}
	want := bytes.Repeat([]byte("memory"), 20000)
	got := make([]byte, len(want))
	if err := a.pull(ca, got, uint64(uintptr(unsafe.Pointer(&want[0])))); err != nil || !bytes.Equal(got, want) {
		t.Errorf("pulled other bytes: %v", err)
	}
	if err := cb.Far.Pull(got, 4096); err != unix.EFAULT {
		t.Errorf("pulled from an address without memory: %v", err)
	}
	page := unix.Getpagesize()
	gone, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(gone)
	if err := unix.Mprotect(gone[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if err := b.pull(cb, gone, uint64(uintptr(unsafe.Pointer(&want[0])))); err == nil {
		t.Error("pulled into memory that is not mapped")
	}
	if err := b.pull(cb, got, uint64(uintptr(unsafe.Pointer(&want[0])))); err != nil {
		t.Errorf("a wrong address ended reading: %v", err)
	}
	cb.Far.StopPulling()
	eventually(t, "the peer learns that its memory is not read any more", func() bool { return !ca.PeerReads() })
	if !cb.PeerReads() {
		t.Error("one end stopped both")
	}
	n := testing.AllocsPerRun(100, func() { _ = a.pull(ca, got[:64], uint64(uintptr(unsafe.Pointer(&want[0])))) })
	if n != 0 {
		t.Errorf("%v allocations in Pull", n)
	}
}

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
	for range 3 { // a segment goes and comes again
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

// The peer maps a segment for reading only, and its descriptor gives it no more.
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
