//go:build linux

package client

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/memfd"
)

// A Mapping is memory that this process has mapped for a process: a mirror of its memory.
type Mapping struct {
	Bytes []byte // whole pages
	pages *pages
	of    Extent // of pages
}

// Close unmaps the memory.
func (m *Mapping) Close() {
	_ = unix.Munmap(m.Bytes)
	m.pages.release(m.of)
}

// tables returns how many bytes of page tables a mapping takes at most. They are not shared: a
// mapping costs them even if others have its pages.
func tables(of Extent) int64 {
	const covered = 2 << 20 // by the smallest table, which is a page
	return (int64(of.length())/covered + 2) * int64(os.Getpagesize())
}

// pages are the pages of a file that are mapped for a process. They count as memory of its
// user, each page once, however many mappings it is in.
type pages struct {
	process *Process
	key     any // of Process.pages
	fd      int // of a file for mirrors, -1 otherwise
	runs    []run
	users   int
}

// An Extent is a range of a program's addresses.
type Extent struct{ Start, End uint64 }

func (e Extent) length() uint64 { return e.End - e.Start }

// touchedPages returns the pages that e touches.
func (e Extent) touchedPages() Extent {
	page := uint64(os.Getpagesize())
	return Extent{e.Start &^ (page - 1), (e.End + page - 1) &^ (page - 1)}
}

// strictCommit reports whether the system may refuse memory at its first use
// (vm.overcommit_memory 2). A store to a memfd could fail here then.
var strictCommit = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return err != nil || len(b) == 0 || b[0] == '2'
})

// A run is a number of pages that are all in the same number of mappings, at least one.
// Runs are in the order of their addresses.
type run struct {
	Extent
	uses int
}

// MapMirror maps memory that mirrors a process's memory on a device. The mirrors of a device
// are one sparse file, in which each page is at its address in the process. So mirrors that
// overlap have pages in common. Those of another device do not, because its lane may have
// stores deferred in them. A device has one lane here.
func (p *Process) MapMirror(device any, of Extent) (*Mapping, error) {
	const limit = math.MaxInt64 &^ 0xffff // the size of the file
	of = Extent{of.Start, max(of.End, of.Start+1)}.touchedPages()
	if of.End <= of.Start || of.End > limit {
		return nil, fmt.Errorf("memory at %#x: %w", of.Start, syscall.EFAULT)
	}
	return p.mapPages(device, of, func(s *pages, fresh []Extent) (b []byte, err error) {
		if s.fd < 0 {
			if s.fd, err = p.Account.newMirrorFile(limit); err != nil {
				return nil, err
			}
		}
		for _, e := range fresh {
			if !strictCommit() {
				break
			}
			err := unix.EINTR
			for err == unix.EINTR {
				err, _ = unix.Fallocate(s.fd, 0, int64(e.Start), int64(e.length())).(syscall.Errno)
			}
			if err != 0 {
				return nil, err // better here than by SIGBUS at the first use
			}
		}
		return unix.Mmap(s.fd, int64(of.Start), int(of.length()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	})
}

// mapPages counts pages and the tables of their mapping, and maps them.
func (p *Process) mapPages(key any, of Extent, do func(s *pages, fresh []Extent) ([]byte, error)) (*Mapping, error) {
	p.mapping.Lock()
	defer p.mapping.Unlock()
	s := p.pages[key]
	if s == nil {
		s = &pages{process: p, key: key, fd: -1}
	}
	fresh := s.change(of, 1)
	n := total(fresh) + tables(of)
	err := p.Account.Memory.Take(n)
	if err == nil {
		var b []byte
		if b, err = do(s, fresh); err == nil {
			if p.pages == nil {
				p.pages = make(map[any]*pages)
			}
			p.pages[key] = s
			s.users++
			return &Mapping{b, s, of}, nil
		}
		p.Account.Memory.Return(n)
	}
	s.change(of, -1)
	s.free(fresh)
	return nil, err
}

// release ends the use of pages by a mapping.
func (s *pages) release(of Extent) {
	p := s.process
	p.mapping.Lock()
	defer p.mapping.Unlock()
	unused := s.change(of, -1)
	s.users--
	s.free(unused)
	p.Account.Memory.Return(total(unused) + tables(of))
}

// free frees the memory of mirrors, and their file after the last use.
func (s *pages) free(unused []Extent) {
	if s.users == 0 {
		delete(s.process.pages, s.key)
	}
	switch {
	case s.fd < 0:
	case s.users == 0:
		_ = unix.Close(s.fd)
		s.fd = -1
		s.process.Account.Descriptors.Return(1)
	default:
		for _, e := range unused {
			_ = unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(e.Start), int64(e.length()))
		}
	}
}

// change adds to the uses of a range, and returns the parts of it that were not used before,
// or are not used any more.
func (s *pages) change(e Extent, by int) (changed []Extent) {
	if e.length() == 0 {
		return nil
	}
	first := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].End > e.Start })
	last, at := first, e.Start
	var list []run
	add := func(from, to uint64, uses int) {
		if n := len(list); from >= to || uses == 0 {
			return
		} else if n > 0 && list[n-1].End == from && list[n-1].uses == uses {
			list[n-1].End = to
		} else {
			list = append(list, run{Extent{from, to}, uses})
		}
	}
	if first > 0 { // to be joined
		first--
		list = append(list, s.runs[first])
	}
	for ; last < len(s.runs) && s.runs[last].Start < e.End; last++ {
		r := s.runs[last]
		from, to := max(r.Start, e.Start), min(r.End, e.End)
		if at < from {
			changed = append(changed, Extent{at, from})
		}
		add(at, from, by)
		add(r.Start, from, r.uses)
		add(from, to, r.uses+by)
		add(to, r.End, r.uses)
		if r.uses+by == 0 {
			changed = append(changed, Extent{from, to})
		}
		at = to
	}
	if at < e.End {
		changed = append(changed, Extent{at, e.End})
		add(at, e.End, by)
	}
	if last < len(s.runs) {
		add(s.runs[last].Start, s.runs[last].End, s.runs[last].uses)
		last++
	}
	s.runs = slices.Replace(s.runs, first, last, list...)
	return changed
}

func total(list []Extent) (n int64) {
	for _, e := range list {
		n += int64(e.length())
	}
	return n
}

// newMirrorFile makes a file for mirrors.
func (a *Account) newMirrorFile(size int64) (int, error) {
	if err := a.Descriptors.Take(1); err != nil {
		return -1, err
	}
	fd, err := memfd.NewSparse("softrdma-mirror", size)
	if err != nil {
		a.Descriptors.Return(1)
		return -1, err
	}
	return fd, nil
}
