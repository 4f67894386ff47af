package memory

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A Space is the memory of another process. It is called with a lane locked, so it waits for
// that process only for a short time. If a call fails because the time is over, the slice may
// still be used later. Slices are therefore part of the mirror, which its owner keeps for long
// enough.
type Space interface {
	// Load reads len(dst) bytes at addr, all or none.
	Load(dst []byte, addr uint64) error
	// Store writes src at addr, all or none.
	Store(addr uint64, src []byte) error
}

// Foreign is memory of another process. Its mirror has a byte for each byte of the region,
// from address Addr of the process. Slices are part of the mirror. Its bytes are loaded before
// they are sent, and stored after they are changed.
type Foreign struct {
	Space Space
	Addr  uint64
}

// Ahead is how much of a message is loaded at once: a call costs as much as copying some
// kilobytes.
const Ahead = 64 << 10

// RegisterForeign is Register for memory of another process. The caller keeps its mirror
// alive and mapped.
func (t *Table) RegisterForeign(pd uint32, mirror []byte, base uint64, access qp.Access, f Foreign) (*Region, error) {
	if f.Space == nil {
		return nil, fmt.Errorf("%w: memory of no process", ErrBounds)
	}
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mirror, foreign: &f})
}

// part returns the foreign memory of a window that begins at offset off.
func (f *Foreign) part(off uint64) *Foreign {
	if f == nil {
		return nil
	}
	return &Foreign{Space: f.Space, Addr: f.Addr + off}
}

func unmapped(addr uint64, n int) reason.Detail {
	return reason.Detail{Reason: reason.MemoryUnmapped, Expected: uint64(n), Found: addr}
}

// load updates n bytes at offset off of the mirror.
func (r *Region) load(off uint64, n int) bool {
	r.table.deferred.settle() // the load may read them
	return r.foreign.Space.Load(r.mem[off:off+uint64(n)], r.foreign.Addr+off) == nil
}

// Read returns n bytes at addr to be sent now, or nil if they are not all inside the region or
// cannot be read.
func (r *Region) Read(addr uint64, n int) []byte {
	b := r.Bytes(addr, n)
	if b == nil || r.foreign != nil && !r.load(addr-r.Base, n) || !r.mapped(b) {
		return nil
	}
	return b
}

// Put copies data to addr; the zero Detail is success.
func (r *Region) Put(addr uint64, data []byte) reason.Detail {
	b := r.Bytes(addr, len(data))
	switch {
	case b == nil:
		return reason.Detail{Reason: reason.KeyBounds, Expected: r.Base + r.Len(), Found: end(addr, uint64(len(data)))}
	case r.foreign != nil:
		return r.store(addr-r.Base, b, data)
	case !r.copyTo(b, data):
		return unmapped(Addr(b), len(data))
	}
	return reason.Detail{}
}

// store copies data to b, the mirror at offset off, and to the process, with the next
// Table.Flush at the latest.
func (r *Region) store(off uint64, b, data []byte) reason.Detail {
	f := r.foreign
	if n := copy(b, data); !r.table.deferred.add(r, off, n) && f.Space.Store(f.Addr+off, b[:n]) != nil {
		return unmapped(f.Addr+off, n)
	}
	return reason.Detail{}
}

// FetchAdd adds to the 8-byte word at addr, which must be inside the region and aligned in
// memory, and returns its original value (IBTA 9.4.5).
//
// It is atomic with the processor's own atomics. In memory of another process it is atomic only
// with other operations of the device
// (IBV_ATOMIC_HCA): no system call changes a word of another process atomically.
func (r *Region) FetchAdd(addr, v uint64) (old uint64, ok bool) {
	if r.watched != nil {
		defer r.writingWord(addr)()
	}
	if r.unpinned {
		defer Caught(Guard(), &ok)
	}
	word, own := r.word(addr)
	switch {
	case word == nil:
		return 0, false
	case own:
		return atomic.AddUint64(word, v) - v, true
	}
	old = *word
	*word += v
	return old, r.storeWord(addr)
}

// CompareSwap writes swap to the word at addr if that contains compare, and returns the
// original value; see FetchAdd.
func (r *Region) CompareSwap(addr, compare, swap uint64) (old uint64, ok bool) {
	if r.watched != nil {
		defer r.writingWord(addr)()
	}
	if r.unpinned {
		defer Caught(Guard(), &ok)
	}
	word, own := r.word(addr)
	switch {
	case word == nil:
		return 0, false
	case !own:
		if old = *word; old != compare {
			return old, true
		}
		*word = swap
		return old, r.storeWord(addr)
	}
	for {
		old = atomic.LoadUint64(word)
		if old != compare || atomic.CompareAndSwapUint64(word, compare, swap) {
			return old, true
		}
	}
}

// SetWord writes v to the word at addr; see FetchAdd.
func (r *Region) SetWord(addr, v uint64) (ok bool) {
	if r.watched != nil {
		defer r.writingWord(addr)()
	}
	if r.unpinned {
		defer Caught(Guard(), &ok)
	}
	word, own := r.word(addr)
	switch {
	case word == nil:
		return false
	case own:
		atomic.StoreUint64(word, v)
		return true
	}
	*word = v
	return r.storeWord(addr)
}

// word returns the word at addr, or nil, and whether the processor's atomics on it are atomic
// for the program.
func (r *Region) word(addr uint64) (w *uint64, own bool) {
	if w = r.Word(addr); w == nil || r.foreign == nil {
		return w, true
	}
	if !r.load(addr-r.Base, 8) {
		return nil, false
	}
	return w, false
}

func (r *Region) storeWord(addr uint64) bool {
	return r.foreign.Space.Store(r.foreign.Addr+addr-r.Base, r.Bytes(addr, 8)) == nil
}

// fetch loads the bytes at offset off of the message that b, n bytes of entry e, belongs to,
// and a reasonable part of the rest of the entry. The first bytes of a message are always
// loaded again.
func (c *Cursor) fetch(e *SGE, pos uint64, n int) bool {
	if pos != 0 && pos >= c.loaded && pos+uint64(n) <= c.loadedEnd {
		return true
	}
	within := pos - c.start
	more := int(min(uint64(e.Length)-within, max(uint64(n), Ahead)))
	if !c.region.load(e.Addr+within-c.region.Base, more) {
		return false
	}
	c.loaded, c.loadedEnd = pos, pos+uint64(more)
	return true
}

// aligned reports whether the memory of a word at mirror offset off is aligned.
func (r *Region) aligned(b []byte, off uint64) bool {
	if r.foreign != nil {
		return (r.foreign.Addr+off)&7 == 0
	}
	return uintptr(unsafe.Pointer(&b[0]))&7 == 0
}
