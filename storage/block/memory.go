package block

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"softrdma/verbs"
)

const (
	// pageSize is the unit in which Memory allocates and locks.
	pageSize = 64 << 10

	// zeroLength is how many bytes that were never written one piece of Pin has at most.
	zeroLength = 1 << 20

	// maxSpare bounds the slots beyond those that the pages of a device need. It is the number of pages that
	// can be pinned at a time.
	maxSpare = 1024
)

// Memory is a Resident backend. Pages are allocated when they are first written. The zero value is not
// usable: see NewMemory.
//
// A page that is written while it is pinned moves: the page gets another slot of the memory, and the pinned
// bytes stay as they are. So a read of the device has the bytes of one moment, and a write never waits
// for a peer.
type Memory struct {
	size   int64
	block  int
	memory *verbs.Memory
	bytes  []byte // the slots, and behind them zeros
	pages  []page
	spare  int64 // slots beyond those of the pages
	pinned atomic.Int64

	refs []atomic.Int32 // of each slot: 1 of the page that it is the content of, 1 of each pin
	mu   sync.Mutex     // of all below, held while a slot is taken or freed
	free []int32        // slots that may be free
	in   []bool         // the slot is in free
}

type page struct {
	mu sync.RWMutex
	at int32 // slot; noSlot if all bytes are zeros
}

const noSlot = -1

// NewMemory returns a device of zeros. The caller closes it.
func NewMemory(size int64, block int) (*Memory, error) {
	if err := CheckSize(size, block); err != nil {
		return nil, err
	}
	n := (size + pageSize - 1) / pageSize
	spare := min(n, maxSpare)
	slots := n + spare
	if slots != int64(int32(slots)) || slots*pageSize != int64(int(slots*pageSize)) {
		return nil, fmt.Errorf("%d bytes of memory: %w", size, errors.ErrUnsupported)
	}
	memory, err := verbs.AllocMemory(int(slots*pageSize+zeroLength), verbs.AllocConfig{})
	if err != nil {
		return nil, err
	}
	m := &Memory{
		size: size, block: block, memory: memory, bytes: memory.Bytes(), spare: spare,
		pages: make([]page, n), refs: make([]atomic.Int32, slots), in: make([]bool, slots),
	}
	for i := range m.pages {
		m.pages[i].at = noSlot
	}
	for slot := slots - 1; slot >= n; slot-- {
		m.put(int32(slot))
	}
	return m, nil
}

// Close frees the memory. It fails with verbs.ErrBusy while a region is registered in it.
func (m *Memory) Close() error { return m.memory.Free() }

// Memory implements Resident.
func (m *Memory) Memory() []byte { return m.bytes }

// slot returns the bytes of a slot.
func (m *Memory) slot(at int32) []byte { return m.bytes[int(at)*pageSize:][:pageSize] }

// put adds a slot to those that may be free.
func (m *Memory) put(slot int32) {
	if !m.in[slot] {
		m.in[slot] = true
		m.free = append(m.free, slot)
	}
}

// take returns a free slot for a page: its own, which keeps pages that follow each other together, or
// another one. There is one, because at most spare pages are pinned. If the pins of the page's slot end
// meanwhile, others may have all free slots: the page keeps the slot that it has then.
func (m *Memory) take(index int, old int32) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := int32(index)
	if m.refs[own].CompareAndSwap(0, 1) {
		return own
	}
	for {
		last := len(m.free) - 1
		if last < 0 { // a slot is about to be freed
			if old != noSlot && m.refs[old].Load() == 1 {
				return old
			}
			m.mu.Unlock()
			runtime.Gosched()
			m.mu.Lock()
			continue
		}
		slot := m.free[last]
		m.free, m.in[slot] = m.free[:last], false
		if m.refs[slot].CompareAndSwap(0, 1) {
			return slot
		}
	}
}

// drop ends a reference to a slot.
func (m *Memory) drop(slot int32) {
	if m.refs[slot].Add(-1) > 0 {
		return
	}
	m.mu.Lock()
	m.put(slot)
	m.mu.Unlock()
}

// each calls f for the part of each page in n bytes at off.
func (m *Memory) each(off, n int64, f func(index, begin, end int)) error {
	if off < 0 || n < 0 || off > m.size || n > m.size-off {
		return io.ErrUnexpectedEOF
	}
	for n > 0 {
		begin := off % pageSize
		part := min(n, pageSize-begin)
		f(int(off/pageSize), int(begin), int(begin+part))
		off, n = off+part, n-part
	}
	return nil
}

// ReadAt implements Backend.
func (m *Memory) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	err := m.each(off, int64(len(b)), func(index, begin, end int) {
		p := &m.pages[index]
		p.mu.RLock()
		defer p.mu.RUnlock()
		if p.at == noSlot {
			clear(b[done : done+end-begin])
			done += end - begin
		} else {
			done += copy(b[done:], m.slot(p.at)[begin:end])
		}
	})
	return done, err
}

// WriteAt implements Backend.
func (m *Memory) WriteAt(b []byte, off int64) (int, error) {
	done := 0
	err := m.each(off, int64(len(b)), func(index, begin, end int) {
		p := &m.pages[index]
		p.mu.Lock()
		defer p.mu.Unlock()
		done += copy(m.writable(index, begin, end)[begin:end], b[done:])
	})
	return done, err
}

// writable returns the bytes of a page, which are about to be overwritten from begin to end. The caller has
// the page's lock.
func (m *Memory) writable(index, begin, end int) []byte {
	p := &m.pages[index]
	old := p.at
	if old != noSlot && m.refs[old].Load() == 1 {
		return m.slot(old)
	}
	p.at = m.take(index, old)
	b := m.slot(p.at)
	if p.at == old {
		return b
	}
	if old == noSlot {
		clear(b[:begin])
		clear(b[end:])
		return b
	}
	was := m.slot(old)
	copy(b[:begin], was)
	copy(b[end:], was[end:])
	m.drop(old)
	return b
}

// Flush implements Backend.
func (m *Memory) Flush() error { return nil }

// Trim implements Backend.
func (m *Memory) Trim(off, n int64) error {
	return m.each(off, n, func(index, begin, end int) {
		p := &m.pages[index]
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.at == noSlot:
		case begin == 0 && end == pageSize:
			if m.refs[p.at].Load() == 1 {
				release(m.slot(p.at))
			}
			m.drop(p.at)
			p.at = noSlot
		default:
			clear(m.writable(index, begin, end)[begin:end])
		}
	})
}

// WriteZeroes implements Backend.
func (m *Memory) WriteZeroes(off, n int64, _ bool) error { return m.Trim(off, n) }

// Pin implements Resident.
func (m *Memory) Pin(off, n int64, at []Extent) ([]Extent, bool) {
	pages := (off%pageSize + n + pageSize - 1) / pageSize
	if m.pinned.Add(pages) > m.spare {
		m.pinned.Add(-pages)
		return at, false
	}
	first, fits := len(at), true
	err := m.each(off, n, func(index, begin, end int) {
		if !fits {
			return
		}
		p := &m.pages[index]
		p.mu.RLock()
		defer p.mu.RUnlock()
		where := int64(p.at)*pageSize + int64(begin)
		if p.at == noSlot {
			where = m.zeros() + int64(begin)
		}
		at, fits = m.join(at, first, Extent{where, int64(end - begin)})
		if fits && p.at != noSlot {
			m.refs[p.at].Add(1)
		}
	})
	if err == nil && fits {
		return at, true
	}
	m.unpin(at[first:])
	m.pinned.Add(-pages)
	return at[:first], false
}

// zeros is where the zeros begin that nothing is written to.
func (m *Memory) zeros() int64 { return int64(len(m.refs)) * pageSize }

// join adds a piece to the last one, or behind it if at has room.
func (m *Memory) join(at []Extent, first int, e Extent) ([]Extent, bool) {
	if last := len(at) - 1; last >= first {
		l := &at[last]
		zeros := e.Offset >= m.zeros()
		if zeros && l.Offset >= m.zeros() && l.Offset+l.Length+e.Length <= int64(len(m.bytes)) || !zeros && l.Offset+l.Length == e.Offset {
			l.Length += e.Length
			return at, true
		}
	}
	if len(at) == cap(at) {
		return at, false
	}
	return append(at, e), true
}

// Unpin implements Resident.
func (m *Memory) Unpin(off, n int64, at []Extent) {
	m.unpin(at)
	m.pinned.Add(-(off%pageSize + n + pageSize - 1) / pageSize)
}

func (m *Memory) unpin(at []Extent) {
	for _, e := range at {
		if e.Offset >= m.zeros() {
			continue
		}
		for slot := e.Offset / pageSize; slot*pageSize < e.Offset+e.Length; slot++ {
			m.drop(int32(slot))
		}
	}
}

// Size implements Backend.
func (m *Memory) Size() int64 { return m.size }

// BlockSize implements Backend.
func (m *Memory) BlockSize() int { return m.block }

// Blocks implements Backend: accesses never block for long.
func (m *Memory) Blocks() bool { return false }
