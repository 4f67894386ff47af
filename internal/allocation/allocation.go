// Package allocation maps memory for devices outside of the Go heap: private, or shared with
// peers on the same host. It records what it has mapped, and how many regions each device
// has registered there, so that memory in use is not unmapped.
package allocation

import (
	"errors"
	"sync"
	"sync/atomic"

	"softrdma/internal/memory"
	"softrdma/internal/provider"
)

// A Kind says which other processes may map memory.
type Kind uint8

// The kinds.
const (
	Private   Kind = iota
	HugePages      // private, in huge pages; New fails if the system has none free
	Peers          // peers on the same host map it for reading, if it has at least 16 KiB and descriptors are left
)

// An Allocation is memory that New has mapped.
type Allocation struct {
	buf       []byte // whole pages
	addr, len uint64
	fd        int             // of the mapped file; -1 if private
	segment   *memory.Segment // not nil if peers on the same host may map it
	regions   map[any]int     // how many regions each open device has
}

// New maps n bytes of zeroed memory, rounded up to whole pages. The caller calls Free.
func New(n int, kind Kind) (*Allocation, error) {
	a := &Allocation{fd: -1}
	err := a.mapPages(n, kind)
	if err != nil {
		return nil, err
	}
	a.addr, a.len = memory.Addr(a.buf), uint64(len(a.buf))
	allocated.Lock()
	defer allocated.Unlock()
	allocated.list = append(allocated.list, a)
	return a, nil
}

func (a *Allocation) mapPages(n int, kind Kind) (err error) {
	switch {
	case kind == Peers && n >= shareFrom && takeDescriptor():
		if a.buf, a.fd, err = mapShared(n); err == nil {
			a.segment = memory.NewSegment(a.buf, n, a.fd)
			return nil
		}
		returnDescriptor()
	}
	a.buf, err = mapMemory(n, kind == HugePages)
	return err
}

// Bytes returns the memory.
func (a *Allocation) Bytes() []byte { return a.buf }

// Shared reports whether peers on the same host may map the memory.
func (a *Allocation) Shared() bool { return a.segment != nil }

// Free unmaps the memory. If regions are registered in it, Free does nothing and returns their number.
func (a *Allocation) Free() (regions int, err error) {
	allocated.Lock()
	defer allocated.Unlock()
	for _, k := range a.regions {
		regions += k
	}
	if regions > 0 {
		return regions, nil
	}
	for i, x := range allocated.list {
		if x == a {
			allocated.list = append(allocated.list[:i], allocated.list[i+1:]...)
			break
		}
	}
	return 0, errors.Join(unmapMemory(a.buf), a.close())
}

// close closes the descriptor.
func (a *Allocation) close() error {
	if a.segment != nil {
		a.segment.Close()
		defer returnDescriptor()
	}
	return closeShared(a.fd)
}

// shareFrom is the size from which memory is shared with peers on the same host. Shorter
// payloads travel through the ring.
const shareFrom = 16 << 10

// descriptors counts the descriptors of memory that is shared with peers. They are limited to
// a quarter of the process's limit, and to mapsLimit, because each needs a mapping as well.
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

// allocated holds the current mappings. Memory that a device may access must not be unmapped.
var allocated struct {
	sync.Mutex
	list []*Allocation
}

// of returns the allocation that buf begins in, or nil. The caller holds the lock.
func of(buf []byte) *Allocation {
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

// Has reports whether buf begins in an allocation.
func Has(buf []byte) bool {
	allocated.Lock()
	defer allocated.Unlock()
	return of(buf) != nil
}

// Buffer describes memory to register. For shared memory the result says where it is in its
// file. The caller has called Hold.
func Buffer(buf []byte) provider.Buffer {
	allocated.Lock()
	defer allocated.Unlock()
	if a := of(buf); a != nil {
		return provider.Buffer{Mem: buf, Segment: a.segment}
	}
	return provider.Buffer{Mem: buf}
}

// Hold counts a region of a device in buf.
func Hold(device any, buf []byte) {
	allocated.Lock()
	defer allocated.Unlock()
	if a := of(buf); a != nil {
		if a.regions == nil {
			a.regions = make(map[any]int)
		}
		a.regions[device]++
	}
}

// Release undoes Hold. After Forget it does nothing, because the memory may have been unmapped
// and its addresses may belong to another allocation.
func Release(device any, buf []byte) {
	allocated.Lock()
	defer allocated.Unlock()
	if a := of(buf); a != nil && a.regions[device] > 0 {
		if a.regions[device]--; a.regions[device] == 0 {
			delete(a.regions, device)
		}
	}
}

// Forget forgets all regions of a closed device.
func Forget(device any) {
	allocated.Lock()
	defer allocated.Unlock()
	for _, a := range allocated.list {
		delete(a.regions, device)
	}
}
