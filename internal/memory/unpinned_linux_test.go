package memory

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// newUnpinned registers three pages of which the program has unmapped the second.
func newUnpinned(t *testing.T) (*Table, *Region, uint64) {
	t.Helper()
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	x := NewTable()
	r, err := x.RegisterUnpinned(1, mem, 0x10000, foreignRights)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(mem[page:2*page], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return x, r, uint64(page)
}

func TestUnpinnedMemoryFailsWhereItIsNotMapped(t *testing.T) {
	x, r, page := newUnpinned(t)
	data := bytes.Repeat([]byte{7}, 100)
	for _, c := range []struct {
		name   string
		off    uint64
		mapped bool
	}{
		{"first page", 0, true}, {"into the second", page - 50, false}, {"second", page + 8, false},
		{"into the third", 2*page - 50, false}, {"third", 2 * page, true},
	} {
		want := reason.None
		if !c.mapped {
			want = reason.MemoryUnmapped
		}
		addr := r.Base + c.off
		if d := r.Put(addr, data); d.Reason != want {
			t.Errorf("%s: put: expected %v, found %v", c.name, want, d)
		}
		if b := r.Read(addr, len(data)); (b != nil) != c.mapped {
			t.Errorf("%s: read %d bytes", c.name, len(b))
		}
		list := []SGE{{Addr: addr, Length: uint32(len(data)), LKey: r.Key}}
		var g, s Cursor
		pieces, d := g.Gather(x, 1, list, 0, len(data), nil)
		if d.Reason != want || c.mapped && !bytes.Equal(pieces[0], data) {
			t.Errorf("%s: gather: expected %v, found %v", c.name, want, d)
		}
		if d := s.Scatter(x, 1, list, 0, data); d.Reason != want || !c.mapped && d.Found != Addr(r.mem)+c.off {
			t.Errorf("%s: scatter: expected %v, found %v", c.name, want, d)
		}
		if _, direct, _ := new(Cursor).Places(x, 1, list, 0, len(data), nil); direct || r.Place(addr, 8) != nil {
			t.Errorf("%s: a socket may write to memory that is not pinned", c.name)
		}
	}
}

func TestUnpinnedAtomicsFailWhereTheWordIsNotMapped(t *testing.T) {
	_, r, page := newUnpinned(t)
	for _, c := range []struct {
		off    uint64
		mapped bool
	}{{8, true}, {page + 8, false}} {
		addr := r.Base + c.off
		if ok := r.SetWord(addr, 40); ok != c.mapped {
			t.Errorf("write at %d: %v", c.off, ok)
		}
		if old, ok := r.FetchAdd(addr, 2); ok != c.mapped || ok && old != 40 {
			t.Errorf("fetch and add at %d: %v, %v", c.off, old, ok)
		}
		if old, ok := r.CompareSwap(addr, 42, 1); ok != c.mapped || ok && old != 42 {
			t.Errorf("compare and swap at %d: %v, %v", c.off, old, ok)
		}
	}
}

func TestWindowOnUnpinnedMemoryIsUnpinned(t *testing.T) {
	x, r, page := newUnpinned(t)
	key, err := x.AllocWindow(1, MW1)
	if err != nil {
		t.Fatal(err)
	}
	b := Bind{Window: key, Region: r.Key, NewKey: key + 1, Addr: r.Base + page, Length: page, Access: qp.RemoteWrite, PD: 1}
	if d := x.Bind(&b); d.Reason != reason.None {
		t.Fatal(d)
	}
	w := x.Lookup(key&^0xff | (key+1)&0xff)
	if d := w.Put(b.Addr, []byte("x")); d.Reason != reason.MemoryUnmapped {
		t.Errorf("expected %v, found %v", reason.MemoryUnmapped, d)
	}
}

// Panics other than memory faults are bugs.
func TestGuardPassesOtherPanicsOn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic was lost")
		}
	}()
	func() {
		ok := true
		defer Caught(Guard(), &ok)
		var p *int
		*p = 1
	}()
}

func TestTouchReadsEachPage(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	for hole := range 4 {
		if err := unix.Mprotect(mem, unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mprotect(mem[hole*page:(hole+1)*page], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		for from := range 4 {
			for to := from; to < 4; to++ {
				b := mem[from*page+page-1 : to*page+page] // the last byte of a page to the end of another
				if _, ok := touch(b); ok != (hole < from || hole > to) {
					t.Errorf("pages %d to %d without %d: %v", from, to, hole, ok)
				}
			}
		}
	}
}

// Unpinned memory is not written without a guard.
func TestUnpinnedMemoryIsNoPlace(t *testing.T) {
	x, r, _ := newUnpinned(t)
	list := []SGE{{r.Base, 100, r.Key}}
	if b := r.Place(r.Base, 100); b != nil {
		t.Errorf("place of %d bytes, expected none", len(b))
	}
	var c Cursor
	if _, direct, d := c.Places(x, 1, list, 0, 100, nil); direct || d.Reason != reason.None {
		t.Errorf("direct %v, %v", direct, d)
	}
}
