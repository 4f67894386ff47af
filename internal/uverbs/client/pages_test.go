//go:build linux

package client

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// change against a count for each page.
func TestPagesCountsEachOnce(t *testing.T) {
	const n = 200
	var uses [n]int
	var s pages
	var held []Extent
	for step := range 20_000 {
		by := 1
		var e Extent
		if len(held) > 0 && (rand.IntN(2) == 0 || len(held) > 30) {
			by = -1
			i := rand.IntN(len(held))
			e, held[i] = held[i], held[len(held)-1]
			held = held[:len(held)-1]
		} else {
			a, b := uint64(rand.IntN(n)), uint64(rand.IntN(n))
			e = Extent{min(a, b), max(a, b)}
			held = append(held, e)
		}
		var expected int64
		for i := e.Start; i < e.End; i++ {
			if uses[i] += by; uses[i] == max(by, 0) {
				expected++
			}
		}
		if found := total(s.change(e, by)); found != expected {
			t.Fatalf("step %d, %v by %d: %d pages have changed, expected %d", step, e, by, found, expected)
		}
		for i, r := range s.runs {
			if r.Start >= r.End || r.uses <= 0 || i > 0 && (s.runs[i-1].End > r.Start || s.runs[i-1].End == r.Start && s.runs[i-1].uses == r.uses) {
				t.Fatalf("step %d: run %d is wrong: %v", step, i, s.runs)
			}
			for at := r.Start; at < r.End; at++ {
				if uses[at] != r.uses {
					t.Fatalf("step %d: page %d has %d uses, expected %d", step, at, r.uses, uses[at])
				}
			}
		}
	}
}

func newMirrored(memory int64) *Process {
	return &Process{PID: os.Getpid(), Account: NewBudget(memory / 2 * 3).NewAccount()}
}

// blocks is how many bytes of memory the mirrors of a device take.
func blocks(t *testing.T, p *Process, device any) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(p.pages[device].fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestOverlappingMirrorsTakeTheirPagesOnce(t *testing.T) {
	const page, base = 4096, 1 << 40
	p := newMirrored(20*page + 2*tables(Extent{}))
	a, err := p.MapMirror("device", Extent{base, base + 10*page})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.MapMirror("device", Extent{base + 5*page + 1, base + 15*page})
	if err != nil {
		t.Fatal(err)
	}
	if n, expected := p.Account.Memory.Held(), 15*page+2*tables(Extent{}); n != expected {
		t.Errorf("%d bytes are counted, expected %d", n, expected)
	}
	for i := range a.Bytes {
		a.Bytes[i] = 1
	}
	for i := range b.Bytes {
		b.Bytes[i] = 2
	}
	if a.Bytes[5*page] != 2 || a.Bytes[5*page-1] != 1 {
		t.Error("the mirrors have no pages in common")
	}
	if n := blocks(t, p, "device"); n != 15*page {
		t.Errorf("%d bytes are in memory, expected %d", n, 15*page)
	}
	_, err = p.MapMirror("device", Extent{base + 15*page, base + 21*page})
	if err == nil || Errno(err) != unix.ENOMEM || !strings.Contains(err.Error(), "CLIENT_LIMIT") {
		t.Errorf("more than the limit: found %v", err)
	}
	if _, err = p.MapMirror("another device", Extent{base, base + 10*page}); Errno(err) != unix.ENOMEM {
		t.Errorf("mirrors of another device are no others: found %v", err)
	}
	a.Close()
	if n, m := p.Account.Memory.Held()-tables(Extent{}), blocks(t, p, "device"); n != 10*page || m != n {
		t.Errorf("%d bytes are counted and %d in memory, expected %d", n, m, 10*page)
	}
	if b.Bytes[0] != 2 || b.Bytes[10*page-1] != 2 {
		t.Error("the other mirror has lost its contents")
	}
	b.Close()
	if n, d := p.Account.Memory.Held(), p.Account.Descriptors.Held(); n != 0 || d != 0 || len(p.pages) != 0 {
		t.Errorf("left: %d bytes, %d descriptors, %d files", n, d, len(p.pages))
	}
}

func TestMirrorOfNoAddressIsRefused(t *testing.T) {
	p := newMirrored(1 << 30)
	for _, e := range []Extent{{1<<64 - 100, 1<<64 - 1}, {1 << 63, 1<<63 + 1}} {
		if _, err := p.MapMirror("device", e); Errno(err) != unix.EFAULT {
			t.Errorf("%#x: found %v", e.Start, err)
		}
	}
	if len(p.pages) != 0 || p.Account.Memory.Held() != 0 {
		t.Error("a refused mirror leaves something")
	}
}

func TestMemoryLimitIsThatOfTheGroup(t *testing.T) {
	dir := t.TempDir()
	if n := groupLimit(dir, "/a/b", "memory.max"); n < 1<<60 {
		t.Errorf("without a group: %d", n)
	}
	if err := os.MkdirAll(dir+"/a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"/a/b/memory.max": "max\n", "/a/memory.max": "419430400\n", "/memory.max": "500000000\n"} {
		if err := os.WriteFile(dir+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := groupLimit(dir, "/a/b", "memory.max"); n != 400<<20 {
		t.Errorf("found %d", n)
	}
	if n := groupLimit(dir, "/../..", "memory.max"); n != 500000000 { // of a container
		t.Errorf("in a group that is not seen: found %d", n)
	}
	if n := memoryLimit(); n < 1<<20 {
		t.Errorf("this process may have %d bytes", n)
	}
}
