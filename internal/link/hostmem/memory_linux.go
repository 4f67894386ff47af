package hostmem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// A Memory is a mapping of memory that another process can map as well. No access to it
// fails, whatever the other process does to the file: it is sealed, so that it cannot
// shrink, and pages that are taken out of it are allocated again.
type Memory struct {
	mem []byte
	fd  int
}

// fixed are the seals of memory whose size nobody can change.
const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// NewMemory makes zeroed memory of size bytes, a multiple of the page size.
func NewMemory(size int) (*Memory, error) {
	if err := strictCommit(); err != nil {
		return nil, err
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("softrdma-host", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("softrdma-host", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := &Memory{fd: fd}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = os.NewSyscallError("ftruncate", err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, fixed); err != nil {
		err = os.NewSyscallError("fcntl F_ADD_SEALS", err)
	} else if m.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		err = os.NewSyscallError("mmap", err)
	}
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// MapMemory maps size bytes of memory whose descriptor a peer has passed, for reading and,
// if write, for writing. It refuses memory of which an access could fail: what is no memfd
// of usual pages, can shrink or is shorter than size. The descriptor stays the caller's.
func MapMemory(fd, size int, write bool) (*Memory, error) {
	if err := strictCommit(); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return nil, fmt.Errorf("look at the peer's memory: %w", err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	switch {
	case err != nil || fs.Type != unix.TMPFS_MAGIC:
		return nil, unusable("type of its file system", unix.TMPFS_MAGIC, uint64(fs.Type))
	case seals&unix.F_SEAL_SHRINK == 0:
		return nil, unusable("seals", unix.F_SEAL_SHRINK, uint64(seals))
	case size <= 0 || int64(size) > st.Size:
		return nil, unusable("size", uint64(size), uint64(st.Size))
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

// unusable refuses memory. what names the property that the numbers belong to.
func unusable(what string, expected, found uint64) error {
	d := reason.Detail{Reason: reason.HostMemory, Expected: expected, Found: found}
	return &reason.Error{Detail: d, Text: fmt.Sprintf("%s: %v", what, d)}
}

// strictCommit refuses shared memory where the system may refuse pages when they are first
// used (vm.overcommit_memory is 2): the access would fail.
var strictCommit = sync.OnceValue(func() error {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err == nil && len(b) > 0 && b[0] == '2' {
		return unusable("vm.overcommit_memory", 1, 2)
	}
	return nil
})

// Bytes returns the memory, which must not be used after Close.
func (m *Memory) Bytes() []byte { return m.mem }

// FD returns the descriptor of memory that NewMemory made, -1 for a peer's.
func (m *Memory) FD() int { return m.fd }

// CloseFD closes the descriptor, once it was passed to the peer. The mapping stays.
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
