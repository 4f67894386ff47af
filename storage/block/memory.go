package block

import (
	"io"
	"sync"
)

// pageSize is the unit in which Memory allocates and locks.
const pageSize = 64 << 10

// Memory is a Backend in memory. Pages are allocated when they are first written. The zero value is not
// usable: see NewMemory.
type Memory struct {
	size  int64
	block int
	pages []page
}

type page struct {
	mu    sync.RWMutex
	bytes []byte // nil if all are zeros
}

// NewMemory returns a device of zeros.
func NewMemory(size int64, block int) (*Memory, error) {
	if err := CheckSize(size, block); err != nil {
		return nil, err
	}
	return &Memory{size: size, block: block, pages: make([]page, (size+pageSize-1)/pageSize)}, nil
}

// each calls f for the part of each page in n bytes at off.
func (m *Memory) each(off, n int64, f func(p *page, begin, end int)) error {
	if off < 0 || n < 0 || off > m.size || n > m.size-off {
		return io.ErrUnexpectedEOF
	}
	for n > 0 {
		begin := off % pageSize
		part := min(n, pageSize-begin)
		f(&m.pages[off/pageSize], int(begin), int(begin+part))
		off, n = off+part, n-part
	}
	return nil
}

// ReadAt implements Backend.
func (m *Memory) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	err := m.each(off, int64(len(b)), func(p *page, begin, end int) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		if p.bytes == nil {
			clear(b[done : done+end-begin])
			done += end - begin
		} else {
			done += copy(b[done:], p.bytes[begin:end])
		}
	})
	return done, err
}

// WriteAt implements Backend.
func (m *Memory) WriteAt(b []byte, off int64) (int, error) {
	done := 0
	err := m.each(off, int64(len(b)), func(p *page, begin, end int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.bytes == nil {
			p.bytes = make([]byte, pageSize)
		}
		done += copy(p.bytes[begin:end], b[done:])
	})
	return done, err
}

// Flush implements Backend.
func (m *Memory) Flush() error { return nil }

// Trim implements Backend.
func (m *Memory) Trim(off, n int64) error {
	return m.each(off, n, func(p *page, begin, end int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if begin == 0 && end == pageSize {
			p.bytes = nil
		} else if p.bytes != nil {
			clear(p.bytes[begin:end])
		}
	})
}

// WriteZeroes implements Backend.
func (m *Memory) WriteZeroes(off, n int64, _ bool) error { return m.Trim(off, n) }

// Size implements Backend.
func (m *Memory) Size() int64 { return m.size }

// BlockSize implements Backend.
func (m *Memory) BlockSize() int { return m.block }

// Blocks implements Backend: accesses never block for long.
func (m *Memory) Blocks() bool { return false }
