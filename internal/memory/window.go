package memory

import (
	"errors"
	"fmt"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

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
		r.table.invalidations.Add(1)
	}
}

// Invalidations counts the bindings of windows that have ended.
func (t *Table) Invalidations() uint32 { return t.invalidations.Load() }

// windowRights are the rights that a window can grant. Local rights come from its region: a
// local right in a bind must not replace the region's.
const windowRights = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.ZeroBased

// A Bind is the request of a bind work request.
type Bind struct {
	Window uint32 // current key of the window
	NewKey uint32 // its low byte becomes the window's; the index stays
	Region uint32 // L_Key of the region
	Addr   uint64
	Length uint64 // 0 unbinds a type 1 window
	Access qp.Access
	PD     uint32
	QPN    uint32
}

// Bind binds a window (IBTA 10.6.7.2, C10-72 to C10-75). The zero Detail means success. The
// consumer only controls the low byte of the key (IBTA 10.6.7.2), so the rest of NewKey is
// ignored, and NewKey may be the current key.
func (t *Table) Bind(b *Bind) reason.Detail {
	refused := reason.Detail{Reason: reason.BindRefused, Expected: uint64(b.Window), Found: uint64(b.Region)}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.regions[b.Window>>indexShift]
	switch {
	case w == nil || w.Key != b.Window || w.Kind == MR || w.PD != b.PD:
		return refused
	case w.Kind == MW1 && b.Access&qp.ZeroBased != 0: // o10-36.2.2: addresses of a type 1 window are those of its region
		return refused
	case w.Kind == MW2 && w.Valid(): // o10-37.2.30: a type 2 window must be invalidated first
		return refused
	case w.Kind == MW2 && b.Length == 0: // o10-37.2.40: binding no bytes does not invalidate it
		return refused
	}
	n := &Region{Kind: w.Kind, Key: w.Key&^0xff | b.NewKey&0xff, PD: b.PD, Access: b.Access & windowRights, table: t}
	if b.Length != 0 {
		m := t.regions[b.Region>>indexShift]
		if m == nil || m.Key != b.Region || m.Kind != MR || !m.Valid() || m.PD != b.PD {
			return refused
		}
		// IBTA C10-73, C10-74: the region must allow binding, and local write if the window
		// allows remote write or atomic.
		if m.Access&qp.MWBind == 0 || CheckAccess(n.Access|m.Access&qp.LocalWrite) != nil || m.Access&qp.ZeroBased != 0 {
			return reason.Detail{Reason: reason.KeyAccess, Expected: uint64(b.Access | qp.MWBind), Found: uint64(m.Access)}
		}
		if d := m.bounds(b.Addr, b.Length, reason.KeyBounds); d.Reason != reason.None {
			return d
		}
		off := b.Addr - m.Base
		n.mem = m.mem[off : off+b.Length : off+b.Length]
		n.foreign, n.unpinned, n.watched = m.foreign.part(off), m.unpinned, m.watched
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
	t.regions[n.Key>>indexShift] = n
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
