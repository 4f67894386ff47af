package coll

import (
	"fmt"
	"math/bits"
	"reflect"
	"sync"
	"unsafe"

	"softrdma/msg"
	"softrdma/verbs"
)

// A pool has memory for calls, in sizes that are powers of two. Large pieces are registered as a
// whole while the groups exist, so that peers on the same host map them.
type pool struct {
	device *verbs.Device
	worker *msg.Worker

	mu     sync.Mutex
	domain *verbs.PD
	all    []allocation
	slabs  []*slab
	number uint64                  // of the last slab
	free   [bits.UintSize][][]byte // by the logarithm of the size
	closed bool
	held   int // calls that run although their groups were closed
}

type allocation struct {
	memory *verbs.Memory
	region *verbs.MR // nil without a device
}

// minShared is the least number of bytes that are worth an allocation of their own.
const minShared = 32 << 10

// take returns n bytes, aligned for any element. Give returns them.
func (p *pool) take(n int) ([]byte, error) {
	class := bits.Len(uint(max(n, 64) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		p.free[class] = list[:len(list)-1]
		return b[:n], nil
	}
	if size := 1 << class; size < minShared {
		words := make([]uint64, size/8)
		return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)[:n], nil
	}
	b, err := p.allocate(1 << class)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

func (p *pool) give(b []byte) {
	b = b[:cap(b)]
	class := bits.Len(uint(len(b) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[class] = append(p.free[class], b)
}

// allocate returns n bytes that exist until close. The caller holds the lock.
func (p *pool) allocate(n int) (b []byte, err error) {
	if p.closed {
		return nil, ErrClosed
	}
	var a allocation
	if a.memory, err = verbs.AllocMemory(n, verbs.AllocConfig{}); err != nil {
		return nil, err
	}
	b = a.memory.Bytes()[:n:n]
	if p.device != nil {
		if p.domain == nil {
			p.domain, err = p.device.AllocPD()
		}
		if err == nil {
			a.region, err = p.domain.RegisterMemory(a.memory.Bytes(), 0)
		}
		if err != nil {
			_ = a.memory.Free() // nothing uses it
			return nil, err
		}
	}
	p.all = append(p.all, a)
	return b, nil
}

// hold keeps the memory for a call whose group was closed, until unhold.
func (p *pool) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
}

// unhold ends hold.
func (p *pool) unhold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held--; p.held == 0 && p.closed {
		_ = p.freeAll() // the groups have ended
	}
}

// close frees the memory, now or when calls that hold it have ended. It is an error if peers may
// still read it.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; p.held > 0 {
		return nil
	}
	return p.freeAll()
}

// freeAll frees the memory. The caller holds the lock.
func (p *pool) freeAll() (err error) {
	first := func(e error) {
		if err == nil {
			err = e
		}
	}
	for _, a := range p.all {
		if a.region != nil {
			first(a.region.Deregister())
		}
		first(a.memory.Free())
	}
	for _, s := range p.slabs {
		first(s.free())
	}
	p.slabs = nil
	p.all, p.free = nil, [bits.UintSize][][]byte{}
	if p.domain != nil {
		first(p.domain.Dealloc())
	}
	return err
}

// Alloc returns a slice of n zeroed elements in memory from which members on the same host read
// without a system call. It exists until the first group is closed; the program must not use it
// then.
func Alloc[T any](g *Group, n int) ([]T, error) {
	if err := checkElement[T](); err != nil {
		return nil, err
	}
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	if n < 0 || size == 0 {
		return make([]T, max(n, 0)), nil
	}
	p := &g.mesh.pool
	if size >= minSlab {
		s, err := p.share(size)
		if err != nil {
			return nil, err
		}
		return view[T](s.bytes), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.allocate(size)
	if err != nil {
		return nil, err
	}
	return view[T](b), nil
}

// view returns the elements in memory that is aligned for them.
func view[T any](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if size == 0 || len(b) < size {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/size)
}

// raw returns the bytes of elements.
func raw[T any](x []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(zero)))
}

// pointerFree has the types that were found to be free of pointers.
var pointerFree sync.Map

// checkElement returns an error if elements contain pointers, which mean nothing to another member.
func checkElement[T any]() error {
	t := reflect.TypeFor[T]()
	if _, ok := pointerFree.Load(t); ok {
		return nil
	}
	if hasPointers(t) {
		return fmt.Errorf("%w: %v", ErrElement, t)
	}
	pointerFree.Store(t, nil)
	return nil
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return t.Kind() > reflect.Complex128 // array and struct are above
}
