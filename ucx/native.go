package ucx

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"softrdma/verbs"
)

// mapped is the size in bytes from which AllocateNativeMemory allocates separate mappings,
// which peers on the same host can map, too.
const mapped = 16 << 10

// native holds the memory of AllocateNativeMemory: a []byte, or a *verbs.Memory of long memory.
var native struct {
	sync.Mutex
	memory map[unsafe.Pointer]any
}

// AllocateNativeMemory returns size bytes of memory that stays until FreeNativeMemory, even if
// the program does not refer to it. It is aligned to 16 bytes. The result is nil if there is
// no memory.
func AllocateNativeMemory(size uint64) unsafe.Pointer {
	if size > math.MaxInt-16 {
		return nil
	}
	var owner any
	var p unsafe.Pointer
	if size < mapped {
		b := make([]byte, max((size+15)&^15, 16)) // sizes that Go aligns to 16 bytes
		owner, p = b, unsafe.Pointer(&b[0])
	} else {
		m, err := verbs.AllocMemory(int(size), verbs.AllocConfig{})
		if err != nil {
			return nil
		}
		owner, p = m, unsafe.Pointer(&m.Bytes()[0])
	}
	native.Lock()
	defer native.Unlock()
	if native.memory == nil {
		native.memory = map[unsafe.Pointer]any{}
	}
	native.memory[p] = owner
	return p
}

// FreeNativeMemory frees memory of AllocateNativeMemory or CBytes. Nil does nothing, any other
// pointer panics.
func FreeNativeMemory(pointer unsafe.Pointer) {
	if pointer == nil {
		return
	}
	native.Lock()
	owner, ok := native.memory[pointer]
	delete(native.memory, pointer)
	native.Unlock()
	if !ok {
		panic(fmt.Sprintf("ucx: free of %p, which is not memory of AllocateNativeMemory", pointer))
	}
	if m, ok := owner.(*verbs.Memory); ok {
		_ = m.Free() // operations that still use it are an error of the program
	}
}

// CBytes copies data to memory of AllocateNativeMemory.
func CBytes(data []byte) unsafe.Pointer {
	p := AllocateNativeMemory(uint64(len(data)))
	if p != nil {
		copy(unsafe.Slice((*byte)(p), len(data)), data)
	}
	return p
}

// GoBytes returns a copy of n bytes at p.
func GoBytes(p unsafe.Pointer, n uint64) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(p), n)...)
}

// memory returns the bytes that a pointer and a size of the program describe.
func memory(p unsafe.Pointer, n uint64) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case p == nil || n > math.MaxInt:
		return nil, &UcxError{UCS_ERR_INVALID_PARAM, fmt.Errorf("%d bytes at %p", n, p)}
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// pointer returns the address of bytes, or nil if there are none.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
