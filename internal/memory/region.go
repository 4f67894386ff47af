// Package memory owns regions, windows and their keys, and checks every access to registered
// memory, local and remote (IBTA 10.6, 9.7.4.1.5). Keys are unpredictable. A region's bytes
// are accessed by slicing, never through a pointer that a peer named. It knows no packets, and
// never waits for one.
package memory

import (
	"sync/atomic"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An SGE is a scatter/gather entry; the layout is rxe_sge's.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// A Kind is a region or one of the two types of windows.
type Kind uint8

// The kinds.
const (
	MR  Kind = iota
	MW1      // window type 1: any queue pair of its protection domain
	MW2      // window type 2: the queue pair that bound it
)

// A Region is registered memory, or a window on it. It is immutable once its
// table has published it, except that it can become invalid.
type Region struct {
	Kind   Kind
	Key    uint32 // L_Key and R_Key of a region, R_Key of a window
	PD     uint32
	QPN    uint32 // of a bound type 2 window
	Base   uint64 // address of the first byte for peers
	Access qp.Access

	mem      []byte
	void     uint64   // bytes behind mem that do not exist, see RegisterVoid
	foreign  *Foreign // nil: mem is the memory itself
	unpinned bool     // mem may be unmapped by its program
	segment  *Segment // that the region covers, or nil
	parent   *Region
	table    *Table
	valid    atomic.Bool
	windows  atomic.Int32 // windows bound to this region
	watched  *watch       // nil unless Watch was called
}

// Len returns the region's length in bytes.
func (r *Region) Len() uint64 { return uint64(len(r.mem)) + r.void }

// Index returns the region's number in its table, which its key begins with.
func (r *Region) Index() uint32 { return r.Key >> indexShift }

// Segment returns the segment whose pages the region covers, or nil.
func (r *Region) Segment() *Segment { return r.segment }

// Valid reports whether the key may be used: it is registered, or bound.
func (r *Region) Valid() bool { return r.valid.Load() }

// Bytes returns n bytes at addr, or nil if they are not all inside the region.
func (r *Region) Bytes(addr uint64, n int) []byte {
	off := addr - r.Base
	if off > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-off {
		return r.beyond(off, n)
	}
	return r.mem[off : off+uint64(n) : off+uint64(n)]
}

// Word returns the 8-byte word at addr, or nil if it is not inside the region or not aligned
// in memory.
func (r *Region) Word(addr uint64) *uint64 {
	b := r.Bytes(addr, 8)
	if b == nil || !r.aligned(b, addr-r.Base) {
		return nil
	}
	return (*uint64)(unsafe.Pointer(&b[0]))
}

// CheckRemote returns why a peer may not access n bytes at addr through this region on queue
// pair qpn of protection domain pd, or the zero Detail if it may. IBTA 9.7.4.1.5, 10.6.3: key,
// then PD, then bounds and rights. The caller does not check an empty message (C9-88).
func (r *Region) CheckRemote(pd, qpn uint32, addr uint64, n uint64, access qp.Access) reason.Detail {
	if d := r.CheckKey(pd, qpn, access); d.Reason != reason.None {
		return d
	}
	return r.bounds(addr, n, reason.KeyBounds)
}

// CheckKey is CheckRemote for an access to the whole region.
func (r *Region) CheckKey(pd, qpn uint32, access qp.Access) reason.Detail {
	switch {
	case !r.Valid():
		return reason.Detail{Reason: reason.KeyInvalid, Expected: 1, Found: 0}
	case r.PD != pd:
		return reason.Detail{Reason: reason.KeyWrongPD, Expected: uint64(pd), Found: uint64(r.PD)}
	case r.Kind == MW2 && r.QPN != qpn:
		return reason.Detail{Reason: reason.KeyQP, Expected: uint64(r.QPN), Found: uint64(qpn)}
	case r.Access&access != access:
		return reason.Detail{Reason: reason.KeyAccess, Expected: uint64(access), Found: uint64(r.Access)}
	}
	if w := r.watched; w != nil {
		w.used.Or(uint32(access))
	}
	return reason.Detail{}
}

func (r *Region) bounds(addr, n uint64, why reason.Reason) reason.Detail {
	off := addr - r.Base
	if addr < r.Base || off > r.Len() || n > r.Len()-off {
		return reason.Detail{Reason: why, Expected: r.Base + r.Len(), Found: end(addr, n)}
	}
	return reason.Detail{}
}

// end returns the end of n bytes at addr, limited to the end of the address space.
func end(addr, n uint64) uint64 {
	if addr+n < addr {
		return 1<<64 - 1
	}
	return addr + n
}
