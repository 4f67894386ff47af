package memory

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// indexShift separates a key's 24-bit index from the 8-bit variant that the owner of a type 2
// window may choose (IBTA 10.6.7.2).
const indexShift = 8

// Errors of the table, which are wrapped with what was found.
var (
	ErrBusy   = reason.Sentinel(reason.ObjectBusy, "object in use")
	ErrAccess = reason.Sentinel(reason.LocalAccess, "access rights do not fit together")
	ErrBounds = reason.Sentinel(reason.LocalBounds, "memory wraps around the address space")
	ErrKey    = reason.Sentinel(reason.KeyUnknown, "no such key")
)

// A Table holds a device's regions by key. Look-ups may run concurrently with changes.
type Table struct {
	// Random draws keys. Nil means crypto/rand. Repeatable simulations set it before the first
	// key is drawn.
	Random func() uint32

	// Segments holds the segments of regions that cover one.
	Segments Segments

	mu      sync.RWMutex
	regions map[uint32]*Region // by index

	invalidations atomic.Uint32
	unpinned      atomic.Bool // there has been an unpinned region

	deferred deferred
}

// NewTable makes an empty table.
func NewTable() *Table { return &Table{regions: make(map[uint32]*Region)} }

// Count returns how many regions and windows there are.
func (t *Table) Count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.regions)
}

// Regions returns the regions and windows that exist.
func (t *Table) Regions() []*Region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.regions))
}

// Lookup returns the region of a key, or nil.
func (t *Table) Lookup(key uint32) *Region {
	t.mu.RLock()
	r := t.regions[key>>indexShift]
	t.mu.RUnlock()
	if r == nil || r.Key != key {
		return nil
	}
	return r
}

// Register makes a region of mem, whose memory the caller owns and keeps alive. base is the
// address of its first byte for peers. Remote write and atomic rights require local write
// (IBTA 10.6.3).
func (t *Table) Register(pd uint32, mem []byte, base uint64, access qp.Access) (*Region, error) {
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem})
}

// RegisterSegment is Register for memory in a segment. Peers on the same host may map the
// segment while a region covers it. s may be nil.
func (t *Table) RegisterSegment(pd uint32, mem []byte, base uint64, access qp.Access, s *Segment) (*Region, error) {
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem, segment: coveredBy(mem, s)})
}

// coveredBy returns s if mem covers it, else nil.
func coveredBy(mem []byte, s *Segment) *Segment {
	if s == nil || !s.Covers(mem) {
		return nil
	}
	return s
}

func (t *Table) register(r *Region) (*Region, error) {
	if err := CheckAccess(r.Access); err != nil {
		return nil, err
	}
	if r.Base+r.Len() < r.Base {
		return nil, fmt.Errorf("%w: %d bytes at %#x", ErrBounds, r.Len(), r.Base)
	}
	r.valid.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.publish(r); err != nil {
		return nil, err
	}
	return r, nil
}

// CheckAccess returns an error if rights do not fit together.
func CheckAccess(access qp.Access) error {
	if access&(qp.RemoteWrite|qp.RemoteAtomic) != 0 && access&qp.LocalWrite == 0 {
		return fmt.Errorf("%w: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE, found %v", ErrAccess, access)
	}
	if access&qp.FlushPersistent != 0 {
		// A FLUSH would have to write back the processor's caches, or the pages of a file.
		return reason.NotSupported("FLUSH_PERSISTENT: no memory is persistent for this device: expected only FLUSH_GLOBAL, found %v", access)
	}
	return nil
}

// publish assigns r an unpredictable key of a free index.
func (t *Table) publish(r *Region) error {
	for range 64 {
		key := t.random()
		i := key >> indexShift
		if i == 0 || t.regions[i] != nil {
			continue
		}
		r.Key = key
		r.table = t
		t.regions[i] = r
		t.Segments.add(r.segment)
		return nil
	}
	return fmt.Errorf("memory keys used up: %d in use", len(t.regions))
}

func (t *Table) random() uint32 {
	if t.Random != nil {
		return t.Random()
	}
	return Random()
}

// Random returns an unpredictable number.
func Random() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.LittleEndian.Uint32(b[:])
}

// Reregister replaces a region by another with a new key, as in ibv_rereg_mr. Nil mem keeps
// the memory, its segment and base. The old key stays valid if it fails.
func (t *Table) Reregister(old *Region, pd uint32, mem []byte, base uint64, access qp.Access, s *Segment) (*Region, error) {
	keep := mem == nil
	if keep {
		mem, base, s = old.mem, old.Base, old.segment
	}
	if n := old.windows.Load(); n != 0 {
		return nil, fmt.Errorf("%w: %d windows are bound to region %#x", ErrBusy, n, old.Key)
	}
	n := &Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem, table: t, segment: coveredBy(mem, s)}
	if keep {
		n.foreign, n.unpinned = old.foreign, old.unpinned
	}
	r, err := t.register(n)
	if err != nil {
		return nil, err
	}
	if err := t.Deregister(old); err != nil {
		_ = t.Deregister(r) // its key was never published
		return nil, err
	}
	return r, nil
}

// Deregister removes a region. It fails with ErrBusy while windows are bound to it (IBTA
// 10.6.7.2.6).
func (t *Table) Deregister(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := r.windows.Load(); n != 0 {
		return fmt.Errorf("%w: %d windows are bound to region %#x", ErrBusy, n, r.Key)
	}
	if r.Kind != MR || t.regions[r.Key>>indexShift] != r {
		return fmt.Errorf("%w: region %#x", ErrKey, r.Key)
	}
	r.valid.Store(false)
	delete(t.regions, r.Key>>indexShift)
	t.Segments.remove(r.segment)
	return nil
}

// Addr returns the address of a slice's first byte, the usual base of a region.
func Addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
