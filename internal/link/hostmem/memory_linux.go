package hostmem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/memfd"
	"softrdma/internal/reason"
)

// A Memory is a mapping of memory that another process can map as well. Accesses never fail,
// whatever the other process does to the file: it is sealed, so it cannot shrink, and pages
// that are punched out of it are allocated again.
type Memory struct {
	mem []byte
	fd  int
}

// NewMemory makes zeroed memory of size bytes, a multiple of the page size.
func NewMemory(size int) (*Memory, error) {
	if err := strictCommit(); err != nil {
		return nil, err
	}
	mem, fd, err := memfd.New("softrdma-host", size, false)
	if err != nil {
		return nil, err
	}
	return &Memory{mem: mem, fd: fd}, nil
}

// MapMemory maps size bytes of memory whose descriptor a peer has passed, for reading and, if
// write, for writing. It refuses memory where an access could fail: anything but a memfd with
// normal pages, or one that can shrink or is shorter than size. The caller keeps the
// descriptor.
func MapMemory(fd, size int, write bool) (*Memory, error) {
	if err := strictCommit(); err != nil {
		return nil, err
	}
	length, flaw, err := memfd.Check(fd)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at the peer's memory: %w", err)
	case flaw != nil:
		return nil, unusable(flaw.What, flaw.Expected, flaw.Found)
	case size <= 0 || uint64(size) > length:
		return nil, unusable("size", uint64(size), length)
	}
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Memory{mem: mem, fd: -1}, nil
}

// unusable refuses memory. what names the property that the numbers describe.
func unusable(what string, expected, found uint64) error {
	d := reason.Detail{Reason: reason.HostMemory, Expected: expected, Found: found}
	return &reason.Error{Detail: d, Text: fmt.Sprintf("%s: %v", what, d)}
}

// strictCommit refuses shared memory if the system may refuse to allocate pages on first use
// (vm.overcommit_memory is 2), because the access would fail.
var strictCommit = sync.OnceValue(func() error {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err == nil && len(b) > 0 && b[0] == '2' {
		return unusable("vm.overcommit_memory", 1, 2)
	}
	return nil
})

// Bytes returns the memory, which must not be used after Close.
func (m *Memory) Bytes() []byte { return m.mem }

// FD returns the descriptor of memory that NewMemory made, or -1 for a peer's memory.
func (m *Memory) FD() int { return m.fd }

// CloseFD closes the descriptor after it was passed to the peer. The mapping stays.
func (m *Memory) CloseFD() error {
	fd := m.fd
	m.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// Close unmaps the memory and closes its descriptor.
func (m *Memory) Close() error {
	err := m.CloseFD()
	if mem := m.mem; mem != nil {
		m.mem = nil
		err = errors.Join(err, unix.Munmap(mem))
	}
	return err
}
