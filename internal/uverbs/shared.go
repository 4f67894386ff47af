//go:build linux

package uverbs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// shared is memory that a program maps by an offset in its file, and this
// process as well: a ring.
type shared struct {
	fd      int // -1 once the program has mapped it
	mem     []byte
	account *account
}

// newShared makes shared memory that nobody can make shorter.
func (x *context) newShared(n int) (*shared, error) {
	a := x.file.account
	if err := a.descriptors.take(1); err != nil {
		return nil, err
	}
	if err := a.mappings.take(1); err != nil {
		a.descriptors.give(1)
		return nil, err
	}
	s, err := mapShared(n)
	if err != nil {
		a.descriptors.give(1)
		a.mappings.give(1)
		return nil, err
	}
	s.account = a
	return s, nil
}

func mapShared(n int) (*shared, error) {
	n = (n + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	fd, err := unix.MemfdCreate("softrdma", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		// What is mapped here must stay: a program that shortened it would have
		// this process die of it.
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &shared{fd: fd, mem: mem}, nil
}

// hand gives the descriptor away.
func (s *shared) hand() int {
	fd := s.fd
	s.fd = -1
	s.account.descriptors.give(1)
	return fd
}

// close unmaps the memory here; the program's mapping stays.
func (s *shared) close() {
	if s == nil {
		return
	}
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
		s.account.descriptors.give(1)
	}
	_ = unix.Munmap(s.mem)
	s.account.mappings.give(1)
}

// mappings are a file's shared memories by the offset at which it maps them.
type mappings struct {
	by   map[uint64]*shared
	next uint64
}

// add gives memory an offset.
func (m *mappings) add(s *shared) mmInfo {
	if m.by == nil {
		m.by = make(map[uint64]*shared)
	}
	m.next += 1 << 12
	for m.by[m.next] != nil {
		m.next += 1 << 12
	}
	at := m.next
	m.next += uint64(len(s.mem))
	m.by[at] = s
	return mmInfo{Offset: at, Size: uint32(len(s.mem))}
}

// take gives the descriptor of what lies at offset to the program, once.
func (m *mappings) take(c *call, offset, length uint64) error {
	s := m.by[offset]
	if s == nil || s.fd < 0 || length == 0 || length > uint64(len(s.mem)) {
		return syscall.EINVAL
	}
	c.answer.give(s.hand(), 0, 0, 0)
	delete(m.by, offset)
	return nil
}

// drop forgets what was not mapped.
func (m *mappings) drop(s *shared) {
	for at, x := range m.by {
		if x == s {
			delete(m.by, at)
			return
		}
	}
}
