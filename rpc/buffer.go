package rpc

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"softrdma/internal/carrier"
	"softrdma/verbs"
)

// A Buffer is registered memory for a body that the peer reads, or that was read from the peer,
// without a copy. It comes from a pool of its session: Client.Buffer and Call.Buffer make one, and
// Release gives it back. A call that was given a Buffer keeps it until the peer has read it, so the
// program may release it at once, but must not change its bytes before the call has ended.
type Buffer struct {
	pool *pool
	span carrier.Span
	n    int
	kind int // size of the memory, as an exponent of 2
	refs atomic.Int32
}

// Bytes returns the body. It must not be used after Release.
func (b *Buffer) Bytes() []byte { return b.span.Bytes()[:b.n] }

// Len returns the length of the body in bytes.
func (b *Buffer) Len() int { return b.n }

// Truncate shortens the body to n bytes. It panics if n is negative or more than Len.
func (b *Buffer) Truncate(n int) {
	if n < 0 || n > b.n {
		panic(fmt.Sprintf("rpc: truncate a buffer of %d bytes to %d", b.n, n))
	}
	b.n = n
}

// local returns where the data of a READ into the buffer is registered.
func (b *Buffer) local(c *carrier.Conn, m carrier.Move) (verbs.SGE, error) {
	r, err := b.span.On(c.Rail)
	if err != nil {
		return verbs.SGE{}, err
	}
	return r.SGE(0, len(m.Data)), nil
}

func (b *Buffer) hold() { b.refs.Add(1) }

// Release gives the buffer back. Each buffer that a program gets must be released once.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("rpc: a buffer was released twice")
	case n == 0:
		b.pool.put(b)
	}
}

// Sizes of buffers, as exponents of 2, and how much a pool keeps.
const (
	minBuffer  = 12
	maxBuffer  = 34
	poolKeeps  = 32 << 20 // bytes
	poolFrames = 64       // buffers of a size
)

// A pool has the buffers of one session.
type pool struct {
	domain *carrier.Domain
	mu     sync.Mutex
	spare  [maxBuffer + 1][]*Buffer
	kept   int // bytes in spare
	closed bool
}

func newPool(d *carrier.Domain) *pool {
	d.Hold()
	return &pool{domain: d}
}

// get returns a buffer for a body of n bytes, whose contents are undefined.
func (p *pool) get(n int) (*Buffer, error) {
	kind := max(minBuffer, bits.Len(uint(max(n, 1)-1)))
	if n < 0 || kind > maxBuffer {
		return nil, fmt.Errorf("%w: a buffer of %d bytes", TooLarge, n)
	}
	p.mu.Lock()
	if list := p.spare[kind]; len(list) > 0 {
		b := list[len(list)-1]
		p.spare[kind] = list[:len(list)-1]
		p.kept -= 1 << kind
		p.mu.Unlock()
		b.n = n
		b.refs.Store(1)
		return b, nil
	}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	s, err := p.domain.Span(1<<kind, verbs.LocalWrite|verbs.RemoteRead, p.domain.Rails()...)
	if err != nil {
		return nil, fmt.Errorf("rpc: a buffer of %d bytes: %w", n, err)
	}
	b := &Buffer{pool: p, span: s, n: n, kind: kind}
	b.refs.Store(1)
	return b, nil
}

func (p *pool) put(b *Buffer) {
	p.mu.Lock()
	keep := !p.closed && p.kept+1<<b.kind <= poolKeeps && len(p.spare[b.kind]) < poolFrames
	if keep {
		p.kept += 1 << b.kind
		p.spare[b.kind] = append(p.spare[b.kind], b)
	}
	p.mu.Unlock()
	if !keep {
		b.span.Free()
	}
}

// close frees the buffers that are not in use. The others are freed when they are released.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var all []*Buffer
	for i, list := range p.spare {
		all = append(all, list...)
		p.spare[i] = nil
	}
	p.mu.Unlock()
	for _, b := range all {
		b.span.Free()
	}
	p.domain.Release()
}
