package memory

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// indexShift separates a key's 24-bit index from the 8-bit variant that the
// owner of a type 2 window may choose (IBTA 10.6.7.2).
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
	// Random draws keys; nil uses crypto/rand. Simulations that must be repeatable set it
	// before the first key is drawn.
	Random func() uint32

	mu      sync.RWMutex
	regions map[uint32]*Region // by index

	deferred deferred
}

// NewTable makes an empty table.
func NewTable() *Table { return &Table{regions: make(map[uint32]*Region)} }

// Count is how many regions and windows there are.
func (t *Table) Count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.regions)
}

// Lookup returns the region of a key, nil if there is none.
func (t *Table) Lookup(key uint32) *Region {
	t.mu.RLock()
	r := t.regions[key>>indexShift]
	t.mu.RUnlock()
	if r == nil || r.Key != key {
		return nil
	}
	return r
}

// Register makes a region over mem, whose memory the caller owns and keeps alive; peers
// name its first byte by base. Remote write and atomic rights require local write (IBTA
// 10.6.3).
func (t *Table) Register(pd uint32, mem []byte, base uint64, access qp.Access) (*Region, error) {
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem})
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

// CheckAccess reports whether rights fit together.
func CheckAccess(access qp.Access) error {
	if access&(qp.RemoteWrite|qp.RemoteAtomic) != 0 && access&qp.LocalWrite == 0 {
		return fmt.Errorf("%w: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE, found %v", ErrAccess, access)
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
		return nil
	}
	return fmt.Errorf("memory keys used up: %d in use", len(t.regions))
}

func (t *Table) random() uint32 {
	if t.Random != nil {
		return t.Random()
	}
	var b [4]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.LittleEndian.Uint32(b[:])
}

// Reregister replaces a region by another with a new key, as ibv_rereg_mr may. Nil mem
// keeps the memory and base. The old key stays valid if it fails.
func (t *Table) Reregister(old *Region, pd uint32, mem []byte, base uint64, access qp.Access) (*Region, error) {
	keep := mem == nil
	if keep {
		mem, base = old.mem, old.Base
	}
	if n := old.windows.Load(); n != 0 {
		return nil, fmt.Errorf("%w: %d windows are bound to region %#x", ErrBusy, n, old.Key)
	}
	n := &Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem, table: t}
	if keep {
		n.foreign = old.foreign
	}
	r, err := t.register(n)
	if err != nil {
		return nil, err
	}
	if err := t.Deregister(old); err != nil {
		_ = t.Deregister(r) // its key is unknown to everyone
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
	return nil
}

// AllocWindow makes an unbound window of the given kind and returns its key.
func (t *Table) AllocWindow(pd uint32, kind Kind) (uint32, error) {
	if kind != MW1 && kind != MW2 {
		return 0, fmt.Errorf("%w: window of type %d", errors.ErrUnsupported, kind)
	}
	r := &Region{Kind: kind, PD: pd}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.publish(r); err != nil {
		return 0, err
	}
	return r.Key, nil
}

// FreeWindow removes the window of a key, bound or not.
func (t *Table) FreeWindow(key uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.regions[key>>indexShift]
	if r == nil || r.Kind == MR {
		return fmt.Errorf("%w: window %#x", ErrKey, key)
	}
	r.unbind()
	delete(t.regions, key>>indexShift)
	return nil
}

// unbind makes a window invalid and releases its region.
func (r *Region) unbind() {
	if r.valid.Swap(false) && r.parent != nil {
		r.parent.windows.Add(-1)
	}
}

// windowRights are the rights that a window can grant. Local rights are its region's: one
// that is named in a bind must not replace the region's.
const windowRights = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.ZeroBased

// A Bind is the request of a bind work request.
type Bind struct {
	Window uint32 // present key of the window
	NewKey uint32 // key after the bind: another variant of the same index
	Region uint32 // L_Key of the region
	Addr   uint64
	Length uint64 // 0 unbinds a type 1 window
	Access qp.Access
	PD     uint32
	QPN    uint32
}

// Bind binds a window (IBTA 10.6.7.2, C10-72 to C10-75). The zero Detail is success.
func (t *Table) Bind(b *Bind) reason.Detail {
	refused := reason.Detail{Reason: reason.BindRefused, Expected: uint64(b.Window), Found: uint64(b.Region)}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.regions[b.Window>>indexShift]
	switch {
	case w == nil || w.Key != b.Window || w.Kind == MR || w.PD != b.PD:
		return refused
	case b.NewKey>>indexShift != b.Window>>indexShift:
		return refused
	case w.Kind == MW2 && w.Valid(): // o10-37.2.30: a type 2 window must be invalidated first
		return refused
	case w.Kind == MW2 && b.Length == 0: // o10-37.2.40: binding no bytes does not invalidate it
		return refused
	}
	n := &Region{Kind: w.Kind, Key: b.NewKey, PD: b.PD, Access: b.Access & windowRights, table: t}
	if b.Length != 0 {
		m := t.regions[b.Region>>indexShift]
		if m == nil || m.Key != b.Region || m.Kind != MR || !m.Valid() || m.PD != b.PD {
			return refused
		}
		// IBTA C10-73, C10-74: the region must allow binding, and local write where
		// the window allows remote write or atomic.
		if m.Access&qp.MWBind == 0 || CheckAccess(n.Access|m.Access&qp.LocalWrite) != nil || m.Access&qp.ZeroBased != 0 {
			return reason.Detail{Reason: reason.KeyAccess, Expected: uint64(b.Access | qp.MWBind), Found: uint64(m.Access)}
		}
		if d := m.bounds(b.Addr, b.Length, reason.KeyBounds); d.Reason != reason.None {
			return d
		}
		off := b.Addr - m.Base
		n.mem = m.mem[off : off+b.Length : off+b.Length]
		n.foreign = m.foreign.part(off, b.Length)
		n.Base = b.Addr
		if b.Access&qp.ZeroBased != 0 {
			n.Base = 0
		}
		if n.Kind == MW2 {
			n.QPN = b.QPN
		}
		n.parent = m
		m.windows.Add(1)
		n.valid.Store(true)
	}
	w.unbind()
	t.regions[b.NewKey>>indexShift] = n
	return reason.Detail{}
}

// Invalidate makes a type 2 window's key invalid, by the peer (remote) or by a
// local work request on queue pair qpn (IBTA 10.6.7.2, o10-37.2.26). The window
// may be bound again under another variant of the key.
func (t *Table) Invalidate(key, pd, qpn uint32) reason.Detail {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.regions[key>>indexShift]
	if w == nil || w.Key != key || w.Kind != MW2 || w.PD != pd || w.Valid() && w.QPN != qpn {
		return reason.Detail{Reason: reason.InvalidateRefused, Expected: uint64(qpn), Found: uint64(key)}
	}
	w.unbind()
	return reason.Detail{}
}

// Addr is the address of a slice's first byte, the usual base of a region.
func Addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
