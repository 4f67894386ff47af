package memory

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"softrdma/internal/qp"
)

// The memory of a C program in this process is used in place, but the program may unmap it at
// any time: it is not pinned. An adapter would continue with the pinned pages. Here an access
// faults, and fails like one to unmapped memory of another process.

// RegisterUnpinned is Register for memory that its owner may unmap while it is registered.
func (t *Table) RegisterUnpinned(pd uint32, mem []byte, base uint64, access qp.Access) (*Region, error) {
	t.unpinned.Store(true)
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem, unpinned: true})
}

// Unpinned reports whether slices that Gather returned may be of unpinned memory.
func (t *Table) Unpinned() bool { return t.unpinned.Load() }

// Guard turns faults of the calling goroutine into panics until the deferred Caught, which
// gets the result of Guard.
func Guard() (before bool) { return debug.SetPanicOnFault(true) }

// Caught must be deferred by a function that called Guard. It recovers from a fault, and then
// sets ok to false.
func Caught(before bool, ok *bool) {
	debug.SetPanicOnFault(before)
	switch e := recover().(type) {
	case nil:
	case interface {
		runtime.Error
		Addr() uintptr
	}:
		*ok = false
	default:
		panic(e)
	}
}

// CopyUnpinned is copy. It reports false if either memory is not mapped.
func CopyUnpinned(dst, src []byte) (ok bool) {
	ok = true
	defer Caught(Guard(), &ok)
	copy(dst, src)
	return ok
}

// touch reads a byte of each page of b, and reports whether all are mapped. Without the
// sum the compiler would drop the reads.
func touch(b []byte) (sum byte, ok bool) {
	const page = 4096 // the smallest page size
	ok = true
	defer Caught(Guard(), &ok)
	for n := len(b); n > 0; {
		last := &b[n-1]
		sum += *last
		n -= int(uintptr(unsafe.Pointer(last))&(page-1)) + 1
	}
	return sum, ok
}

// mapped reports whether b can be read, if there is any doubt.
func (r *Region) mapped(b []byte) (ok bool) {
	if r.unpinned {
		_, ok = touch(b)
		return ok
	}
	return true
}
