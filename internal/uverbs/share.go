//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// shareFrom is how long the whole pages of a region are that are worth being
// shared: each part of a program's memory that is shared is a mapping more.
const shareFrom = 64 << 10

// An extent is a range of a program's addresses.
type extent struct{ start, end uint64 }

func (e extent) overlaps(o extent) bool { return e.start < o.end && o.start < e.end }

// wholePages are those of a region.
func wholePages(q *regMR) extent {
	page := uint64(os.Getpagesize())
	e := extent{(q.Start + page - 1) &^ (page - 1), (q.Start + q.Length) &^ (page - 1)}
	e.end = max(e.start, e.end)
	return e
}

// A share is a part of a program's memory that is a memfd, mapped here as well.
// Regions on it have mappings of their own, all of the same pages.
type share struct {
	extent
	id      uint64
	process *process
	account *account
	mem     []byte
}

// copyTo maps a part of the share once more, where to begins.
func (s *share) copyTo(to []byte, part extent) error {
	n := part.end - part.start
	if part.start < s.start || part.end > s.end || uint64(len(to)) < n || n == 0 {
		return syscall.EINVAL
	}
	// A mapping that others have as well is moved without its pages where its old
	// length is 0 (mremap(2)).
	from := unsafe.Pointer(&s.mem[part.start-s.start])
	_, _, no := unix.Syscall6(unix.SYS_MREMAP, uintptr(from), 0, uintptr(n), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, uintptr(unsafe.Pointer(&to[0])), 0)
	if no != 0 {
		return no
	}
	return nil
}

// sharing is what a process shares: its library puts memfds in the place of
// memory, where nothing else of the device's uses that. While the library
// replaces pages, a store from here to the old ones would be lost.
type sharing struct {
	mu      sync.Mutex
	next    uint64
	shares  map[uint64]*share
	regions map[*mr]struct{}
}

// used tells whether a region has a part of a range.
func (s *sharing) used(e extent) bool {
	for m := range s.regions {
		if m.overlaps(e) {
			return true
		}
	}
	return false
}

// remove forgets a region, and what no other uses any more, which it gives.
func (s *sharing) remove(m *mr) (left []*share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.regions, m)
	for id, h := range s.shares {
		if h.overlaps(m.extent) && !s.used(h.extent) {
			delete(s.shares, id)
			_ = unix.Munmap(h.mem)
			h.account.mappings.give(1)
			left = append(left, h)
		}
	}
	// The library is asked for one: best for the region's own.
	if i := slices.Index(left, m.share); i > 0 {
		left[0], left[i] = left[i], left[0]
	}
	return left
}

// askToShare makes the answer ask for memory to be shared, where the library
// offers it and a region is worth it, and tells whether it does.
func (x *context) askToShare(c *command, q *regMR) bool {
	e := wholePages(q)
	if c.share != uapi.ShareOffered || c.process.pidfd == nil || e.end-e.start < shareFrom || len(c.fds) > 0 || strictCommit() {
		return false // without a pidfd each connection is a process of its own
	}
	if a := x.file.account; a.mappings.n.Load() > a.mappings.max/2 {
		return false // regions are more to a program than that they are shared
	}
	s := &c.process.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used(e) && !slices.ContainsFunc(s.list(), func(h *share) bool { return h.start <= e.start && e.end <= h.end }) {
		return false
	}
	c.answer.Flags |= replyShare
	c.answer.Offset, c.answer.Rdev = e.start, e.end-e.start
	return true
}

func (s *sharing) list() (list []*share) {
	for _, h := range s.shares {
		list = append(list, h)
	}
	return list
}

// useShare makes a region known that has a part of a process's memory which is
// shared, or could be, with the share that its pages lie in.
func (x *context) useShare(c *command, m *mr) error {
	if c.share == 0 || c.process.pidfd == nil {
		return nil
	}
	s := &c.process.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	e := wholePages(&regMR{Start: m.start, Length: m.end - m.start})
	switch c.share {
	case uapi.ShareMemfd:
		h, err := c.newShare(e)
		if err != nil {
			return err
		}
		s.next++
		h.id, m.share = s.next, h
		if s.shares == nil {
			s.shares = make(map[uint64]*share)
		}
		s.shares[h.id] = h
	case uapi.ShareKnown:
		// One that is unknown was given up while the library could not take it back.
		if h := s.shares[c.shareArg]; h != nil && h.start <= e.start && e.end <= h.end && e.end > e.start {
			m.share = h
		}
	case uapi.ShareNot:
		x.tellPrivate(c, e)
	}
	if m.share != nil {
		m.parts = 3 // what is shared, before and behind it
	}
	if s.regions == nil {
		s.regions = make(map[*mr]struct{})
	}
	m.sharing = s
	s.regions[m] = struct{}{}
	return nil
}

// newShare maps the memfd that came with a command in the place of a range.
func (c *command) newShare(e extent) (*share, error) {
	page := uint64(os.Getpagesize())
	if c.shareArg&(page-1) != 0 || e.end-e.start < shareFrom || c.process.sharing.used(e) {
		return nil, fmt.Errorf("range %#x to %#x: %w", e.start, e.end, refuse(syscall.EINVAL, reason.MemoryShared, shareFrom, c.shareArg))
	}
	a := c.file.account
	if err := a.mappings.take(1); err != nil {
		return nil, err
	}
	mem, err := c.mapMemfd(c.shareArg, e.end-e.start)
	if err != nil {
		a.mappings.give(1)
		return nil, err
	}
	return &share{extent: e, process: c.process, account: a, mem: mem}, nil
}

// mapMemfd maps n bytes from offset on of the memfd that came with a call, from
// the beginning of a page on. What the program does to it never fails an access
// here: a memfd that is sealed cannot shrink, and pages that it gives back come
// again. Huge pages might not.
func (c *call) mapMemfd(offset, n uint64) ([]byte, error) {
	if len(c.fds) != 1 {
		return nil, fmt.Errorf("number of descriptors: %w", refuse(syscall.EINVAL, reason.MemoryShared, 1, uint64(len(c.fds))))
	}
	fd, page := c.fds[0], uint64(os.Getpagesize())
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return nil, err
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	size := uint64(st.Size)
	switch {
	case err != nil || fs.Type != unix.TMPFS_MAGIC:
		return nil, fmt.Errorf("type of its file system: %w", refuse(syscall.EINVAL, reason.MemoryShared, unix.TMPFS_MAGIC, uint64(fs.Type)))
	case seals&unix.F_SEAL_SHRINK == 0:
		return nil, fmt.Errorf("seals: %w", refuse(syscall.EINVAL, reason.MemoryShared, unix.F_SEAL_SHRINK, uint64(seals)))
	case offset > size || n > size-offset || n == 0:
		return nil, fmt.Errorf("%d bytes at offset %#x of its length: %w", n, offset, refuse(syscall.EINVAL, reason.MemoryShared, offset+n, size))
	}
	lead := offset & (page - 1)
	return unix.Mmap(fd, int64(offset-lead), int(lead+n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// privateCauses are what a library gives as the cause for not sharing memory.
var privateCauses = map[uint64]string{
	uapi.NotSystem:  "the system refused it",
	uapi.NotThreads: "the program has several threads",
	uapi.NotMapping: "it is not all private, anonymous, writable and unlocked memory",
	uapi.NotIO:      "the program uses io_uring or asynchronous I/O",
}

// tellPrivate counts and logs a region that goes without being shared.
func (x *context) tellPrivate(c *command, e extent) {
	s, cause := x.file.server, privateCauses[c.shareArg]
	if cause == "" {
		cause = "for a cause that is not known"
	}
	why := reason.Detail{Reason: reason.MemoryPrivate, Expected: e.end - e.start, Found: c.shareArg}
	s.count(why)
	s.logf(why.Reason, "%v, %s: %v: %d bytes at %#x: %s", c.process, x.file.name, why.Reason, e.end-e.start, e.start, cause)
}

// strictCommit tells whether the system fails who touches more memory than it
// has promised: in a memfd that would be whoever comes first.
var strictCommit = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return err != nil || len(b) == 0 || b[0] == '2'
})
