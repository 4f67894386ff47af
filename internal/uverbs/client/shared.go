//go:build linux

package client

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/memfd"
	"softrdma/internal/wire/uapi"
)

// SharedMemory is memory for a ring. This process maps it, and a program maps it at an
// offset of its file.
type SharedMemory struct {
	fd      int // -1 once the program has mapped it
	Bytes   []byte
	account *Account
}

// NewSharedMemory allocates shared memory that is sealed against shortening.
func (a *Account) NewSharedMemory(n int) (*SharedMemory, error) {
	if err := a.Descriptors.Take(1); err != nil {
		return nil, err
	}
	if err := a.Mappings.Take(1); err != nil {
		a.Descriptors.Return(1)
		return nil, err
	}
	n = (n + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	s := &SharedMemory{account: a}
	err := a.Memory.Take(int64(n))
	if err == nil {
		if s.Bytes, s.fd, err = memfd.New("softrdma-program", n, false); err == nil {
			return s, nil
		}
		a.Memory.Return(int64(n))
	}
	a.Descriptors.Return(1)
	a.Mappings.Return(1)
	return nil, err
}

// TakeDescriptor returns the descriptor, which belongs to the caller then.
func (s *SharedMemory) TakeDescriptor() int {
	fd := s.fd
	s.fd = -1
	s.account.Descriptors.Return(1)
	return fd
}

// Close unmaps the memory here. The program's mapping stays.
func (s *SharedMemory) Close() {
	if s == nil {
		return
	}
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
		s.account.Descriptors.Return(1)
	}
	n := int64(len(s.Bytes))
	_ = unix.Munmap(s.Bytes)
	s.account.Mappings.Return(1)
	s.account.Memory.Return(n)
}

// Mappings are the shared memories of a file by the offset at which its program
// maps them.
type Mappings struct {
	by   map[uint64]*SharedMemory
	next uint64
}

// Add assigns an offset to memory.
func (m *Mappings) Add(s *SharedMemory) uapi.MmInfo {
	if m.by == nil {
		m.by = make(map[uint64]*SharedMemory)
	}
	m.next += 1 << 12
	for m.by[m.next] != nil {
		m.next += 1 << 12
	}
	at := m.next
	m.next += uint64(len(s.Bytes))
	m.by[at] = s
	return uapi.MmInfo{Offset: at, Size: uint32(len(s.Bytes))}
}

// Take passes the descriptor of the memory at offset to the program, once.
func (m *Mappings) Take(c *Call, offset, length uint64) error {
	s := m.by[offset]
	if s == nil || s.fd < 0 || length == 0 || length > uint64(len(s.Bytes)) {
		return syscall.EINVAL
	}
	c.Answer.Attach(s.TakeDescriptor(), 0, 0, 0)
	delete(m.by, offset)
	return nil
}

// Release closes memory that the device no longer uses.
func (m *Mappings) Release(s *SharedMemory) {
	if s != nil {
		m.drop(s)
		s.Close()
	}
}

// Close closes all memory that was not mapped.
func (m *Mappings) Close() {
	for _, s := range m.by {
		s.Close()
	}
}

// drop forgets memory that was not mapped.
func (m *Mappings) drop(s *SharedMemory) {
	for at, x := range m.by {
		if x == s {
			delete(m.by, at)
			return
		}
	}
}
