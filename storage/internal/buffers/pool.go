// Package buffers keeps registered memory for the data of protocols. A Pool has the buffers of one
// protection domain. A Budget bounds how much of them one user, such as a connection or a disk, has
// at a time, so that one that is stuck does not take everything.
package buffers

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"softrdma/verbs"
)

const (
	smallest  = 12 // the smallest buffer has 4,096 bytes; sizes are powers of two
	chunkSize = 1 << 20
)

// A Buffer is registered memory with local rights only.
type Buffer struct {
	Bytes []byte // a power of two

	chunk *chunk
	off   int
	from  *Budget
}

// SGE returns the entry of a piece of the buffer.
func (b *Buffer) SGE(off, n int) verbs.SGE { return b.chunk.mr.SGE(b.off+off, n) }

// A Pool has the buffers of a protection domain. It keeps memory for later buffers. Its methods may be called
// from any goroutine.
type Pool struct {
	pd    *verbs.PD
	limit int
	chunk int

	mu     sync.Mutex
	free   [32][]*Buffer // by the power of two of their size
	chunks []*chunk
	size   int // bytes of all chunks
}

type chunk struct {
	memory *verbs.Memory
	mr     *verbs.MR
	used   int // buffers
}

func (c *chunk) release() error { return errors.Join(c.mr.Deregister(), c.memory.Free()) }

// NewPool returns a pool whose users together have at most about limit bytes at a time. Budgets bound
// them; the limit is the size of the largest buffer, decides how much is allocated at once, and is how much
// may be kept that is not in use.
func NewPool(pd *verbs.PD, limit int) *Pool {
	return &Pool{pd: pd, limit: limit, chunk: min(chunkSize, limit)}
}

// class returns the power of two of the size of a buffer of n bytes.
func (p *Pool) class(n int) (int, error) {
	class := max(bits.Len(uint(max(n, 1)-1)), smallest)
	if class >= len(p.free) || 1<<class > p.limit {
		return 0, fmt.Errorf("buffer of %d bytes: expected at most %d", n, p.limit)
	}
	return class, nil
}

// Try returns a buffer of at least n bytes, whose contents are arbitrary. It returns nil if that much
// is not left of the budget. Put gives the buffer back.
func (p *Pool) Try(from *Budget, n int) (*Buffer, error) {
	class, err := p.class(n)
	if err != nil || !from.Try(1<<class) {
		return nil, err
	}
	return p.get(from, class)
}

// Get is Try, but waits while the budget is in use. It returns nil if done is closed first. A caller
// must not wait for a buffer while it has another of the same budget.
func (p *Pool) Get(from *Budget, n int, done <-chan struct{}) (*Buffer, error) {
	class, err := p.class(n)
	if err != nil || !from.Take(1<<class, done) {
		return nil, err
	}
	return p.get(from, class)
}

func (p *Pool) get(from *Budget, class int) (*Buffer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[class]) == 0 {
		if err := p.grow(class); err != nil {
			from.Release(1 << class)
			return nil, err
		}
	}
	last := len(p.free[class]) - 1
	b := p.free[class][last]
	p.free[class] = p.free[class][:last]
	b.from = from
	b.chunk.used++
	return b, nil
}

// grow adds a chunk of memory with buffers of a size.
func (p *Pool) grow(class int) error {
	size := 1 << class
	n := max(size, p.chunk&^(size-1))
	if p.size+n > p.limit {
		if err := p.shrink(); err != nil {
			return err
		}
	}
	memory, err := verbs.AllocMemory(n, verbs.AllocConfig{Device: p.pd.Device()})
	if err != nil {
		return err
	}
	mr, err := p.pd.RegisterMemory(memory.Bytes(), verbs.LocalWrite)
	if err != nil {
		return errors.Join(err, memory.Free())
	}
	c := &chunk{memory: memory, mr: mr}
	p.chunks = append(p.chunks, c)
	p.size += n
	for off := 0; off < n; off += size {
		p.free[class] = append(p.free[class], &Buffer{Bytes: memory.Bytes()[off : off+size : off+size], chunk: c, off: off})
	}
	return nil
}

// shrink frees the chunks that are not in use. Without it, memory would be kept for each size as much as buffers
// of that size were once in use.
func (p *Pool) shrink() (err error) {
	for class := range p.free {
		p.free[class] = slices.DeleteFunc(p.free[class], func(b *Buffer) bool { return b.chunk.used == 0 })
	}
	p.chunks = slices.DeleteFunc(p.chunks, func(c *chunk) bool {
		if c.used > 0 {
			return false
		}
		p.size -= len(c.memory.Bytes())
		err = errors.Join(err, c.release())
		return true
	})
	return err
}

// Put gives a buffer back.
func (p *Pool) Put(b *Buffer) {
	n := len(b.Bytes)
	from := b.from
	p.mu.Lock()
	class := bits.Len(uint(n)) - 1
	p.free[class] = append(p.free[class], b)
	b.chunk.used--
	p.mu.Unlock()
	from.Release(n)
}

// Close frees all memory. No buffer may be in use.
func (p *Pool) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.chunks {
		err = errors.Join(err, c.release())
	}
	p.chunks, p.free, p.size = nil, [32][]*Buffer{}, 0
	return err
}
