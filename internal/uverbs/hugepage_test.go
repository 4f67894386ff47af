//go:build linux

package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What is asked for are whole huge pages of the region's own mappings, where it
// is long.
func TestHugePagesAreAskedForLongRegions(t *testing.T) {
	const huge = 2 << 20
	for _, c := range []struct {
		name                       string
		start, length, first, last uint64
		at, n                      uint64 // nothing where n is 0
	}{
		{"short", 10 * huge, collapseFrom - 1, 0, 100 * huge, 0, 0},
		{"rounded", 10*huge + 4096, 3 * huge, 10 * huge, 14 * huge, 10 * huge, 4 * huge},
		{"next to others'", 10*huge + 4112, 3 * huge, 10*huge + 4096, 13*huge + 8192, 11 * huge, 2 * huge},
		{"without a whole one", 10*huge + 4112, huge, 10*huge + 4096, 11*huge + 8192, 0, 0},
		{"very long", 10 * huge, 2 * collapseLimit, 10 * huge, 10*huge + 2*collapseLimit, 10 * huge, collapseLimit},
	} {
		var a answer
		a.collapse(huge, c.start, c.length, c.first, c.last)
		if asked := a.Flags&replyHuge != 0; asked != (c.n != 0) || a.Offset != c.at || a.Rdev != c.n {
			t.Errorf("%s: found %#x bytes at %#x (%v), expected %#x at %#x", c.name, a.Rdev, a.Offset, asked, c.n, c.at)
		}
	}
	var none answer
	if none.collapse(0, 0, 64*huge, 0, 64*huge); none.Flags != 0 {
		t.Error("huge pages asked for where there are none")
	}
}

// Only the program can do it, so the answer to its command asks for it.
func TestRegistrationAsksForHugePages(t *testing.T) {
	if hugePage() == 0 {
		t.Skip("SKIPPED: no transparent huge pages here")
	}
	f := newClient(t, newServer(t, "127.14.1.91")).open("uverbs0")
	pd, _, _ := do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	mem, err := unix.Mmap(-1, 0, int(3*hugePage()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	for _, n := range []uint64{4096, uint64(len(mem))} {
		h := cmdHeader{Command: cmdRegMR, InWords: uint16(8+size[regMR]()) / 4, OutWords: 3}
		q := regMR{Response: addrOf(f.alloc(12)), Start: addrOf(mem), Length: n, HCAVA: addrOf(mem), PDHandle: pd.Handle}
		got, _, p := f.write(append(bytesOf(&h), bytesOf(&q)...))
		if got < 0 {
			t.Fatalf("%d bytes: %v", n, got)
		}
		asked := p.Flags&replyHuge != 0
		if asked != (n >= collapseFrom) || asked && (p.Offset%hugePage() != 0 || p.Rdev%hugePage() != 0 || p.Rdev < 2*hugePage()) {
			t.Errorf("%d bytes at %#x: asked for %#x at %#x (%v)", n, addrOf(mem), p.Rdev, p.Offset, asked)
		}
	}
}
