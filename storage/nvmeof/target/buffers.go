package target

import (
	"errors"
	"sync"

	"softrdma/verbs"
)

const (
	smallest  = 4096 // bytes of the smallest buffer; each class has four times the size of the one before
	chunkSize = 1 << 20
	// classBytes bounds the memory of one class of buffers. Commands wait when it is in use.
	classBytes = 64 << 20
)

// A buffer is registered memory for the data of one command.
type buffer struct {
	bytes []byte
	sge   verbs.SGE
	class int
}

// A pool has the buffers of a device.
type pool struct {
	pd *verbs.PD

	mu     sync.Mutex
	free   [][]*buffer // of each class
	bytes  []int       // of each class, in use or free
	wait   []chan struct{}
	chunks []chunk
}

type chunk struct {
	memory *verbs.Memory
	mr     *verbs.MR
}

// newPool returns a pool with buffers of at most size bytes.
func newPool(pd *verbs.PD, size int) *pool {
	classes := 1
	for n := smallest; n < size; n *= 4 {
		classes++
	}
	return &pool{pd: pd, free: make([][]*buffer, classes), bytes: make([]int, classes), wait: make([]chan struct{}, classes)}
}

func classOf(n int) (class, size int) {
	for size = smallest; size < n; size *= 4 {
		class++
	}
	return class, size
}

// get returns a buffer of at least n bytes. If none is left it returns a channel that is closed when
// there may be one.
func (p *pool) get(n int) (*buffer, <-chan struct{}, error) {
	class, size := classOf(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[class]) == 0 && p.bytes[class] < classBytes {
		if err := p.grow(class, size); err != nil {
			return nil, nil, err
		}
	}
	if last := len(p.free[class]) - 1; last >= 0 {
		b := p.free[class][last]
		p.free[class] = p.free[class][:last]
		return b, nil, nil
	}
	if p.wait[class] == nil {
		p.wait[class] = make(chan struct{})
	}
	return nil, p.wait[class], nil
}

// grow adds a chunk of memory to a class.
func (p *pool) grow(class, size int) error {
	n := max(size, chunkSize)
	memory, err := verbs.AllocMemory(n, verbs.AllocConfig{Device: p.pd.Device()})
	if err != nil {
		return err
	}
	mr, err := p.pd.RegisterMemory(memory.Bytes(), verbs.LocalWrite)
	if err != nil {
		return errors.Join(err, memory.Free())
	}
	p.chunks = append(p.chunks, chunk{memory, mr})
	p.bytes[class] += n
	for off := 0; off < n; off += size {
		b := &buffer{memory.Bytes()[off : off+size : off+size], mr.SGE(off, size), class}
		p.free[class] = append(p.free[class], b)
	}
	return nil
}

// put gives a buffer back.
func (p *pool) put(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[b.class] = append(p.free[b.class], b)
	if p.wait[b.class] != nil {
		close(p.wait[b.class])
		p.wait[b.class] = nil
	}
}

// close frees all memory. No buffer may be in use.
func (p *pool) close() (err error) {
	for _, c := range p.chunks {
		err = errors.Join(err, c.mr.Deregister(), c.memory.Free())
	}
	p.chunks = nil
	return err
}

// An adapter has what the queues of one device share.
type adapter struct {
	pd     *verbs.PD
	pool   *pool
	queues int // that use it
}

// adapterOf returns the adapter of a device, for one queue more.
func (t *Target) adapterOf(dev *verbs.Device) (*adapter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.adapters[dev]
	if a == nil {
		pd, err := dev.AllocPD()
		if err != nil {
			return nil, err
		}
		a = &adapter{pd: pd, pool: newPool(pd, t.subs.Limits().MaxTransfer)}
		t.adapters[dev] = a
	}
	a.queues++
	return a, nil
}

// release says that a queue does not use the adapter any more. The last one frees its memory.
func (t *Target) release(dev *verbs.Device, a *adapter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.queues--; a.queues > 0 {
		return nil
	}
	delete(t.adapters, dev)
	return errors.Join(a.pool.close(), a.pd.Dealloc())
}
