//go:build !linux

package hostmem

import "softrdma/internal/reason"

// A Memory is memory that another process can map as well. This system has none.
type Memory struct{}

// errSystem refuses what only Linux has.
var errSystem = reason.NotSupported("devices of one host talk through memory on Linux only")

// NewMemory fails.
func NewMemory(size int) (*Memory, error) { return nil, errSystem }

// MapMemory fails.
func MapMemory(fd, size int, write bool) (*Memory, error) { return nil, errSystem }

// Bytes returns nothing.
func (m *Memory) Bytes() []byte { return nil }

// FD returns no descriptor.
func (m *Memory) FD() int { return -1 }

// CloseFD does nothing.
func (m *Memory) CloseFD() error { return nil }

// Close does nothing.
func (m *Memory) Close() error { return nil }
