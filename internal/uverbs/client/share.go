//go:build linux

package client

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/memfd"
	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// ShareFrom is the least length of the whole pages of a region that are worth
// sharing: each shared part of a program's memory is one more mapping.
const ShareFrom = 64 << 10

// An Extent is a range of a program's addresses.
type Extent struct{ Start, End uint64 }

func (e Extent) length() uint64 { return e.End - e.Start }

func (e Extent) overlaps(o Extent) bool { return e.Start < o.End && o.Start < e.End }

func (e Extent) contains(o Extent) bool { return e.Start <= o.Start && o.End <= e.End }

// WholePages returns the pages that lie in e completely.
func (e Extent) WholePages() Extent {
	page := uint64(os.Getpagesize())
	w := Extent{(e.Start + page - 1) &^ (page - 1), e.End &^ (page - 1)}
	w.End = max(w.Start, w.End)
	return w
}

// touchedPages returns the pages that e touches.
func (e Extent) touchedPages() Extent {
	page := uint64(os.Getpagesize())
	return Extent{e.Start &^ (page - 1), (e.End + page - 1) &^ (page - 1)}
}

// A Share is a part of a program's memory that is a memfd, mapped by this process
// as well. Regions on it have mappings of their own, all of the same pages.
type Share struct {
	Extent
	ID      uint64
	process *Process
	account *Account
	mem     *Mapping
}

// MapOver maps a part of the share a second time, over the beginning of to.
func (s *Share) MapOver(to []byte, part Extent) error {
	n := part.length()
	if !s.contains(part) || uint64(len(to)) < n || n == 0 {
		return syscall.EINVAL
	}
	// With an old length of 0, mremap(2) makes a second mapping of shared pages.
	from := unsafe.Pointer(&s.mem.Bytes[part.Start-s.Start])
	_, _, no := unix.Syscall6(unix.SYS_MREMAP, uintptr(from), 0, uintptr(n), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, uintptr(unsafe.Pointer(&to[0])), 0)
	if no != 0 {
		return no
	}
	return nil
}

// A Region is a range of a process's memory that is registered.
type Region struct {
	Extent
	Share *Share // that its whole pages lie in, nil without one

	process *Process // nil where the region is none of its sharing's
	unused  []*Share // that no region uses since this one was removed
}

// Mappings returns how many mappings a mirror of the region takes at most.
func (r *Region) Mappings() int64 {
	if r.Share != nil {
		return 3 // the share, and the memory before and after it
	}
	return 1
}

// Remove ends the region, and the shares that no other region uses.
func (r *Region) Remove() {
	if r.process != nil {
		r.unused = r.process.sharing.remove(r)
	}
}

// Sharing is the memory that a process shares. Its library replaces memory by
// memfds, but never memory that a region uses: while the library replaces pages,
// a store from here to the old ones would be lost.
type Sharing struct {
	mu      sync.Mutex
	next    uint64
	shares  map[uint64]*Share
	regions map[*Region]struct{}
}

// used reports whether a region uses a part of a range.
func (s *Sharing) used(e Extent) bool {
	for r := range s.regions {
		if r.overlaps(e) {
			return true
		}
	}
	return false
}

// remove forgets a region and the shares that no other region uses, which it
// returns.
func (s *Sharing) remove(r *Region) (unused []*Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.regions, r)
	for id, h := range s.shares {
		if h.overlaps(r.Extent) && !s.used(h.Extent) {
			delete(s.shares, id)
			h.process.AfterCopies(func() {
				h.mem.Close()
				h.account.Mappings.Return(1)
			})
			unused = append(unused, h)
		}
	}
	// The library can be asked to take back one: the region's own if possible.
	if i := slices.Index(unused, r.Share); i > 0 {
		unused[0], unused[i] = unused[i], unused[0]
	}
	return unused
}

// AskToShare makes the answer ask the library to share the memory of a region, if
// the library offers that and it is worth it, and reports whether it does.
func (c *Call) AskToShare(region Extent) bool {
	e := region.WholePages()
	if c.share != uapi.ShareOffered || c.Process.pidfd == nil || e.length() < ShareFrom || len(c.fds) > 0 || strictCommit() {
		return false // without a pidfd each connection is a process of its own
	}
	if a := c.file.Account; a.Mappings.N.Load() > a.Mappings.Max/2 {
		return false // regions are worth more to a program than sharing them
	}
	s := &c.Process.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used(e) && s.containing(e) == nil {
		return false
	}
	c.Answer.Flags |= uapi.ReplyShare
	c.Answer.Offset, c.Answer.Rdev = e.Start, e.length()
	return true
}

// Shared returns how many parts of the process's memory are shared, and how many
// regions its sharing knows.
func (p *Process) Shared() (shares, regions int) {
	p.sharing.mu.Lock()
	defer p.sharing.mu.Unlock()
	return len(p.sharing.shares), len(p.sharing.regions)
}

// containing returns a share that contains a range, or nil.
func (s *Sharing) containing(e Extent) *Share {
	for _, h := range s.shares {
		if h.contains(e) {
			return h
		}
	}
	return nil
}

// AddRegion records a region in its process's sharing, with the share that its
// pages lie in.
func (c *Call) AddRegion(r *Region) error {
	if c.share == 0 || c.Process.pidfd == nil {
		return nil
	}
	s := &c.Process.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	e := r.WholePages()
	switch c.share {
	case uapi.ShareMemfd:
		h, err := c.newShare(e)
		if err != nil {
			return err
		}
		s.next++
		h.ID, r.Share = s.next, h
		if s.shares == nil {
			s.shares = make(map[uint64]*Share)
		}
		s.shares[h.ID] = h
	case uapi.ShareKnown:
		// An unknown one was given up while the library could not take it back.
		if h := s.shares[c.shareArg]; h != nil && h.contains(e) && e.length() > 0 {
			r.Share = h
		}
	case uapi.ShareNot:
		c.reportPrivate(e)
	}
	if s.regions == nil {
		s.regions = make(map[*Region]struct{})
	}
	r.process = c.Process
	s.regions[r] = struct{}{}
	return nil
}

// newShare maps the memfd that came with a command and replaces a range.
func (c *Call) newShare(e Extent) (*Share, error) {
	page := uint64(os.Getpagesize())
	if c.shareArg&(page-1) != 0 || e.length() < ShareFrom || c.Process.sharing.used(e) {
		return nil, fmt.Errorf("range %#x to %#x: %w", e.Start, e.End, Refuse(syscall.EINVAL, reason.MemoryShared, ShareFrom, c.shareArg))
	}
	a := c.file.Account
	if err := a.Mappings.Take(1); err != nil {
		return nil, err
	}
	mem, err := c.MapMemfd(c.shareArg, e.length())
	if err != nil {
		a.Mappings.Return(1)
		return nil, err
	}
	return &Share{Extent: e, process: c.Process, account: a, mem: mem}, nil
}

// TakeBack asks the library to make a share private again that no region uses
// since r was removed.
func (c *Call) TakeBack(r *Region) {
	if len(r.unused) > 0 && r.unused[0].process == c.Process {
		c.Answer.Flags |= uapi.ReplyPrivate
		c.Answer.File = r.unused[0].ID
	}
}

// MapMemfd maps n bytes at offset of the memfd that came with a call, from the
// beginning of a page. No access to them can fail here, whatever the program does
// to the memfd (memfd.Check).
func (c *Call) MapMemfd(offset, n uint64) (*Mapping, error) {
	if len(c.fds) != 1 {
		return nil, fmt.Errorf("number of descriptors: %w", Refuse(syscall.EINVAL, reason.MemoryShared, 1, uint64(len(c.fds))))
	}
	fd := c.fds[0]
	size, flaw, err := memfd.Check(fd)
	switch {
	case err != nil:
		return nil, err
	case flaw != nil:
		return nil, fmt.Errorf("%s: %w", flaw.What, Refuse(syscall.EINVAL, reason.MemoryShared, flaw.Expected, flaw.Found))
	case offset > size || n > size-offset || n == 0:
		return nil, fmt.Errorf("%d bytes at offset %#x of its length: %w", n, offset, Refuse(syscall.EINVAL, reason.MemoryShared, offset+n, size))
	}
	return c.Process.mapFile(fd, Extent{offset, offset + n})
}

// privateCauses are the causes that a library gives for not sharing memory.
var privateCauses = map[uint64]string{
	uapi.NotSystem:  "the system refused it",
	uapi.NotThreads: "the program has several threads",
	uapi.NotMapping: "it is not all private, anonymous, writable and unlocked memory",
	uapi.NotIO:      "the program uses io_uring or asynchronous I/O",
}

// reportPrivate counts and logs a region whose memory is not shared.
func (c *Call) reportPrivate(e Extent) {
	cause := privateCauses[c.shareArg]
	if cause == "" {
		cause = "unknown cause"
	}
	why := reason.Detail{Reason: reason.MemoryPrivate, Expected: e.length(), Found: c.shareArg}
	refusals := &c.file.Runtime.Refusals
	refusals.Count(why)
	refusals.Logf(why.Reason, "%v, %s: %v: %d bytes at %#x: %s", c.Process, c.file.Name, why.Reason, e.length(), e.Start, cause)
}

// strictCommit reports whether the system may refuse memory at its first use
// (vm.overcommit_memory 2). A store to a memfd could fail here then.
var strictCommit = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return err != nil || len(b) == 0 || b[0] == '2'
})
