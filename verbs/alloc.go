package verbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"softrdma/internal/memory"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
)

// AllocConfig says what memory AllocMemory allocates.
type AllocConfig struct {
	HugePages bool // use huge pages; AllocMemory fails if the system has none free

	// Device is the device that the memory is for. Memory for a daemon's device is
	// mapped by the daemon as well once it is registered there: it is not copied
	// to the daemon and back, and remote atomics on it are atomic with those of
	// this process. It cannot have huge pages. Memory for an iWARP device is not
	// shared with peers on the same host. Nil is any device of this process.
	Device *Device
}

// Memory is page-aligned memory outside of the Go heap. The program owns it until
// Free.
type Memory struct {
	mu  sync.Mutex
	buf []byte // whole pages, as mapped
	len int
	use *allocation
}

// AllocMemory maps n bytes of zeroed, page-aligned memory outside of the Go
// heap, which the garbage collector does not scan. Free unmaps it.
//
// On Linux it is the fastest memory for peers on the same host. While a region
// is registered over all of it, peers of the same user map it and copy what is
// sent from it themselves. Each such allocation takes a file descriptor.
// Allocations of less than 16 KiB, those with huge pages, and those beyond a
// quarter of the process's descriptors are not shared, and are otherwise the same.
func AllocMemory(n int, cfg AllocConfig) (*Memory, error) {
	if n <= 0 {
		return nil, reason.BadArgument(0, uint64(n), "alloc memory: expected more than 0 bytes, found %d", n)
	}
	a := &allocation{fd: -1}
	buf, err := a.mapPages(n, cfg)
	if err != nil {
		return nil, fmt.Errorf("alloc %d bytes of memory: %w", n, err)
	}
	a.addr, a.len = memory.Addr(buf), uint64(len(buf))
	allocated.Lock()
	allocated.list = append(allocated.list, a)
	allocated.Unlock()
	return &Memory{buf: buf, len: n, use: a}, nil
}

// mapPages maps the pages of n bytes: shared with a daemon, shared with peers on the same
// host, or private.
func (a *allocation) mapPages(n int, cfg AllocConfig) (buf []byte, err error) {
	forDaemon := cfg.Device != nil && cfg.Device.remote
	switch {
	case forDaemon && cfg.HugePages:
		return nil, reason.NotSupported("huge pages are not shared with a daemon")
	case forDaemon:
		buf, a.fd, err = mapShared(n, true)
		return buf, err
	case cfg.HugePages || n < shareFrom || cfg.Device != nil && cfg.Device.protocol == IWARP || !takeDescriptor():
		return mapMemory(n, cfg.HugePages)
	}
	if buf, a.fd, err = mapShared(n, false); err != nil {
		returnDescriptor()
		return mapMemory(n, false)
	}
	a.segment = memory.NewSegment(buf, n, a.fd)
	return buf, nil
}

// Bytes returns the memory, nil after Free. The memory must not be accessed after
// Free.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buf == nil {
		return nil
	}
	return m.buf[:m.len:m.len]
}

// Free unmaps the memory. It fails with ErrBusy while a region is registered
// over it. A second Free does nothing.
func (m *Memory) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buf == nil {
		return nil
	}
	allocated.Lock()
	defer allocated.Unlock()
	if n := m.use.count(); n > 0 {
		return fmt.Errorf("free memory: %w: %d regions are registered over it", ErrBusy, n)
	}
	for i, a := range allocated.list {
		if a == m.use {
			allocated.list = append(allocated.list[:i], allocated.list[i+1:]...)
			break
		}
	}
	buf := m.buf
	m.buf = nil
	return errors.Join(unmapMemory(buf), m.use.close())
}

// Allocated reports whether buf begins in memory of AllocMemory that was not freed.
func Allocated(buf []byte) bool {
	allocated.Lock()
	defer allocated.Unlock()
	return allocationOf(buf) != nil
}

// shareFrom is the size from which memory is shared with peers on the same host. Less
// travels in the ring.
const shareFrom = 16 << 10

// descriptors counts the descriptors of memory that is shared with peers. A quarter of
// the process's limit is theirs at most, and mapsLimit, as each needs a mapping too.
var descriptors atomic.Int64

const mapsLimit = 4096

func takeDescriptor() bool {
	if descriptors.Add(1) <= min(descriptorLimit()/4, mapsLimit) {
		return true
	}
	returnDescriptor()
	return false
}

func returnDescriptor() { descriptors.Add(-1) }

// An allocation is a range that AllocMemory mapped, and the regions in it.
type allocation struct {
	addr, len uint64
	fd        int             // of the file that the range is mapped from; -1 for none
	segment   *memory.Segment // not nil if peers on the same host may map it
	regions   map[*Device]int // how many regions each open device has
}

// close closes the descriptor.
func (a *allocation) close() error {
	if a.segment != nil {
		a.segment.Close()
		defer returnDescriptor()
	}
	return closeShared(a.fd)
}

func (a *allocation) count() (n int) {
	for _, k := range a.regions {
		n += k
	}
	return n
}

// allocated are the ranges that are mapped now. Memory that a device may access
// must not be unmapped.
var allocated struct {
	sync.Mutex
	list []*allocation
}

func allocationOf(buf []byte) *allocation {
	if len(buf) == 0 {
		return nil
	}
	at := memory.Addr(buf)
	for _, a := range allocated.list {
		if at-a.addr < a.len {
			return a
		}
	}
	return nil
}

// bufferOf returns memory to register. If it lies in shared memory the buffer says
// where. The caller has called holdAllocated.
func bufferOf(buf []byte) provider.Buffer {
	b := provider.Buffer{Mem: buf, Memfd: -1}
	allocated.Lock()
	defer allocated.Unlock()
	a := allocationOf(buf)
	if a == nil {
		return b
	}
	b.Segment = a.segment
	off := memory.Addr(buf) - a.addr
	if a.fd >= 0 && a.segment == nil && off+uint64(len(buf)) <= a.len {
		b.Shared, b.Memfd, b.Offset = true, a.fd, off
	}
	return b
}

// holdAllocated counts a region of a device over buf.
func holdAllocated(d *Device, buf []byte) {
	allocated.Lock()
	defer allocated.Unlock()
	if a := allocationOf(buf); a != nil {
		if a.regions == nil {
			a.regions = make(map[*Device]int)
		}
		a.regions[d]++
	}
}

// releaseAllocated undoes holdAllocated. After releaseDevice it does nothing: the
// memory may be unmapped and its addresses belong to another allocation.
func releaseAllocated(d *Device, buf []byte) {
	allocated.Lock()
	defer allocated.Unlock()
	if a := allocationOf(buf); a != nil && a.regions[d] > 0 {
		if a.regions[d]--; a.regions[d] == 0 {
			delete(a.regions, d)
		}
	}
}

// releaseDevice forgets all regions of a device that was closed.
func releaseDevice(d *Device) {
	allocated.Lock()
	defer allocated.Unlock()
	for _, a := range allocated.list {
		delete(a.regions, d)
	}
}
