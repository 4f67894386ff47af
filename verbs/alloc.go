package verbs

import (
	"fmt"
	"sync"

	"softrdma/internal/allocation"
	"softrdma/internal/reason"
)

// AllocConfig says what memory AllocMemory allocates.
type AllocConfig struct {
	HugePages bool // use huge pages; AllocMemory fails if the system has none free

	// Device is the device that the memory is for. Memory for an iWARP device is not
	// shared with peers on the same host. Nil is any device.
	Device *Device
}

// Memory is page-aligned memory outside of the Go heap. The program owns it until Free.
type Memory struct {
	mu  sync.Mutex
	use *allocation.Allocation // nil after Free
	len int
}

// AllocMemory maps n bytes of zeroed, page-aligned memory outside of the Go heap, which the
// garbage collector does not scan. Free unmaps it.
//
// On Linux it is the fastest memory for peers on the same host. While a region is registered
// over all of it, peers of the same user map it and copy sent data from it themselves. Each
// such allocation needs a file descriptor. Allocations of less than 16 KiB, those with huge
// pages, and those beyond a quarter of the process's descriptors are not shared. They behave
// the same otherwise.
func AllocMemory(n int, cfg AllocConfig) (*Memory, error) {
	if n <= 0 {
		return nil, reason.BadArgument(0, uint64(n), "alloc memory: expected more than 0 bytes, found %d", n)
	}
	kind := allocation.Peers
	switch {
	case cfg.HugePages:
		kind = allocation.HugePages
	case cfg.Device != nil && cfg.Device.protocol == IWARP:
		kind = allocation.Private
	}
	a, err := allocation.New(n, kind)
	if err != nil {
		return nil, fmt.Errorf("alloc %d bytes of memory: %w", n, err)
	}
	return &Memory{use: a, len: n}, nil
}

// Bytes returns the memory, or nil after Free. The memory must not be accessed after Free.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.use == nil {
		return nil
	}
	return m.use.Bytes()[:m.len:m.len]
}

// Shared reports whether peers on the same host can map the memory while a region covers all
// of it.
func (m *Memory) Shared() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.use != nil && m.use.Shared()
}

// Free unmaps the memory. It fails with ErrBusy while a region is registered
// in it. A second Free does nothing.
func (m *Memory) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.use == nil {
		return nil
	}
	n, err := m.use.Free()
	if n > 0 {
		return fmt.Errorf("free memory: %w: %d regions are registered in it", ErrBusy, n)
	}
	m.use = nil
	return err
}

// Allocated reports whether buf begins in memory of AllocMemory that was not freed.
func Allocated(buf []byte) bool { return allocation.Has(buf) }
