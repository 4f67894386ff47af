//go:build !linux

package hostmem

import "softrdma/internal/reason"

// A Memory is memory that another process can map as well. It exists only on Linux.
type Memory struct{}

// errSystem is returned for features that need Linux.
var errSystem = reason.NotSupported("devices of one host talk through memory on Linux only")

// NewMemory fails.
func NewMemory(size int) (*Memory, error) { return nil, errSystem }

// MapMemory fails.
func MapMemory(fd, size int, write bool) (*Memory, error) { return nil, errSystem }

// Bytes returns nil.
func (m *Memory) Bytes() []byte { return nil }

// FD returns -1.
func (m *Memory) FD() int { return -1 }

// CloseFD does nothing.
func (m *Memory) CloseFD() error { return nil }

// Close does nothing.
func (m *Memory) Close() error { return nil }
