package channel

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"softrdma/verbs"
)

// minBuffer is the smallest size of a buffer, bytes.
const minBuffer = 8 << 10

// A Buffer is registered memory for local use. Its sizes are powers of two.
type Buffer struct {
	Bytes []byte
	mr    *verbs.MR
}

// SGE returns the entry of a piece of the buffer.
func (b *Buffer) SGE(off, n int) verbs.SGE { return b.mr.SGE(off, n) }

// A pool keeps buffers that are registered, one list for each size.
type pool struct {
	pd     *verbs.PD
	memory *budget
	limit  int

	mu   sync.Mutex
	free [32][]*Buffer
}

// Buffer returns a buffer of at least n bytes whose contents are arbitrary. It waits while
// Config.Memory is in use, and returns the connection's error if it ends. The caller gives the
// buffer back with Put. A caller must not wait for one while it has another.
func (c *Conn) Buffer(n int) (*Buffer, error) {
	class := bits.Len(uint(max(n, minBuffer) - 1))
	if class >= len(c.pool.free) || 1<<class > c.pool.limit {
		return nil, fmt.Errorf("buffer of %d bytes: expected at most %d", n, c.pool.limit)
	}
	if !c.pool.memory.take(1<<class, c.failed) {
		return nil, c.Err()
	}
	p := &c.pool
	p.mu.Lock()
	if l := p.free[class]; len(l) > 0 {
		b := l[len(l)-1]
		p.free[class] = l[:len(l)-1]
		p.mu.Unlock()
		return b, nil
	}
	p.mu.Unlock()
	mr, err := p.pd.RegisterMemory(make([]byte, 1<<class), verbs.LocalWrite)
	if err != nil {
		p.memory.release(1 << class)
		return nil, err
	}
	return &Buffer{mr.Bytes(), mr}, nil
}

// Put gives a buffer back.
func (c *Conn) Put(b *Buffer) {
	class := bits.Len(uint(len(b.Bytes) - 1))
	c.pool.mu.Lock()
	c.pool.free[class] = append(c.pool.free[class], b)
	c.pool.mu.Unlock()
	c.pool.memory.release(len(b.Bytes))
}

// close deregisters the buffers.
func (p *pool) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.free {
		for _, b := range l {
			err = errors.Join(err, b.mr.Deregister())
		}
	}
	p.free = [32][]*Buffer{}
	return err
}
