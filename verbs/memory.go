package verbs

import (
	"fmt"
	"sync"

	"softrdma/internal/allocation"
	"softrdma/internal/memory"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Access is a set of access rights to memory. The numbers are those of
// ibv_access_flags. Local read access is always granted.
type Access uint32

// The rights (IBTA 10.6.3). RemoteWrite and RemoteAtomic need LocalWrite.
const (
	LocalWrite      Access = 1 << 0 // receives, READs and atomics of this side may write
	RemoteWrite     Access = 1 << 1 // peers may WRITE and ATOMIC WRITE
	RemoteRead      Access = 1 << 2 // peers may READ
	RemoteAtomic    Access = 1 << 3 // peers may execute atomics
	MWBind          Access = 1 << 4 // windows may be bound to it
	ZeroBased       Access = 1 << 5 // the address of the first byte is 0
	FlushGlobal     Access = 1 << 8 // peers may FLUSH to GlobalVisibility
	FlushPersistent Access = 1 << 9 // peers may FLUSH to Persistence; RegisterMemory refuses it, because there is no persistent memory
)

// String returns the names of ibv_access_flags without their prefix, joined by
// bars, as "LOCAL_WRITE|REMOTE_READ", or "none".
func (a Access) String() string { return qp.Access(a).String() }

// An SGE is a scatter/gather entry: a piece of registered memory that a work
// request sends from or receives to. MR.SGE makes one.
type SGE struct {
	Addr   uint64 // of the first byte, as MR.Addr counts
	Length uint32 // bytes
	LKey   uint32 // MR.LKey of the region
}

// A PD is a protection domain.
type PD struct {
	dev *Device
	drv provider.PD
}

// AllocPD makes a protection domain (IBTA 10.2.3).
func (d *Device) AllocPD() (*PD, error) {
	p, err := d.drv.AllocPD()
	if err != nil {
		return nil, fmt.Errorf("alloc PD: %w", err)
	}
	return &PD{d, p}, nil
}

// Device returns the domain's device.
func (p *PD) Device() *Device { return p.dev }

// Dealloc deallocates the domain. It fails with ErrBusy while objects are left in
// it. A second Dealloc does nothing.
func (p *PD) Dealloc() error { return p.drv.Dealloc() }

// An MR is a memory region.
type MR struct {
	pd *PD

	mu   sync.Mutex
	r    provider.Region
	buf  []byte
	gone bool
}

// RegisterMemory registers buf (IBTA 11.2, ibv_reg_mr), at most MaxRegionLength bytes of Go
// memory or of AllocMemory. Nothing is pinned, so memory costs nothing until it is used, as
// with on-demand paging of adapters. The caller owns the memory and must not use it for
// another purpose before the region is deregistered. The device keeps Go memory alive. An
// empty buffer is allowed. RemoteWrite and RemoteAtomic need LocalWrite.
func (p *PD) RegisterMemory(buf []byte, access Access) (*MR, error) {
	if uint64(len(buf)) > MaxRegionLength {
		return nil, reason.BadArgument(MaxRegionLength, uint64(len(buf)), "register memory: expected at most %d bytes, found %d", uint64(MaxRegionLength), len(buf))
	}
	allocation.Hold(p.dev, buf) // before a concurrent Close can be noticed, see allocation.Forget
	r, err := p.drv.Register(allocation.Buffer(buf), base(buf, access), qp.Access(access))
	if err != nil {
		allocation.Release(p.dev, buf)
		return nil, fmt.Errorf("register memory: %w", err)
	}
	return &MR{pd: p, r: r, buf: buf}, nil
}

func base(buf []byte, access Access) uint64 {
	if access&ZeroBased != 0 {
		return 0
	}
	return memory.Addr(buf)
}

// PD returns the region's protection domain.
func (m *MR) PD() *PD {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pd
}

func (m *MR) region() provider.Region {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.r
}

// LKey returns the key by which local work requests name the region.
func (m *MR) LKey() uint32 { return m.region().Key }

// RKey returns the key by which peers name the region.
func (m *MR) RKey() uint32 { return m.region().Key }

// Addr returns the address of the region's first byte, 0 with ZeroBased.
func (m *MR) Addr() uint64 { return m.region().Base }

// Len returns the region's length in bytes.
func (m *MR) Len() int { return int(m.region().Len) }

// Bytes returns the registered memory, or nil after Deregister.
func (m *MR) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buf
}

// SGE returns an entry of n bytes at offset off. It does not check the range: a work request
// with an entry outside the region completes with LocProtErr.
func (m *MR) SGE(off, n int) SGE {
	r := m.region()
	return SGE{Addr: r.Base + uint64(off), Length: uint32(n), LKey: r.Key}
}

// Reregister changes the region's memory (nil keeps it) and rights (IBTA 11.2, ibv_rereg_mr).
// Its keys change. It fails with ErrBusy while windows are bound to the region. On any error
// nothing changes.
func (m *MR) Reregister(buf []byte, access Access) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return fmt.Errorf("re-register memory: memory region: %w", ErrDestroyed)
	}
	if buf == nil {
		buf = m.buf
	}
	allocation.Hold(m.pd.dev, buf)
	r, err := m.pd.drv.Reregister(m.r, allocation.Buffer(buf), base(buf, access), qp.Access(access))
	if err != nil {
		allocation.Release(m.pd.dev, buf)
		return fmt.Errorf("re-register memory: %w", err)
	}
	allocation.Release(m.pd.dev, m.buf)
	m.r, m.buf = r, buf
	return nil
}

// Deregister ends the region: the device refuses its keys from now on. When it
// returns the device no longer accesses the memory. It fails with ErrBusy while
// windows are bound to the region. A second Deregister does nothing.
func (m *MR) Deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	if err := m.pd.drv.Deregister(m.r); err != nil {
		return fmt.Errorf("deregister memory: %w", err)
	}
	allocation.Release(m.pd.dev, m.buf)
	m.buf, m.gone = nil, true
	return nil
}

// An MWType is a type of memory window.
type MWType uint8

// The types (IBTA 10.6.7.2). OpBindMW binds both under a new key (see MW.RKey). A
// type 1 window can be bound again at any time; binding no bytes unbinds it. A
// type 2 window belongs to the queue pair that bound it. Either side can
// invalidate it, which must happen before it is bound again.
const (
	MWType1 MWType = 1
	MWType2 MWType = 2
)

// An MW is a memory window: a key to a part of a region. Work requests bind and unbind it.
type MW struct {
	pd  *PD
	typ MWType

	mu   sync.Mutex
	key  uint32
	gone bool
}

// AllocMW makes an unbound window (IBTA 10.6.7).
func (p *PD) AllocMW(t MWType) (*MW, error) {
	kind := memory.Kind(t) // the numbers are equal
	if kind != memory.MW1 && kind != memory.MW2 {
		return nil, reason.BadArgument(2, uint64(t), "alloc MW: expected type 1 or 2, found %d", t)
	}
	key, err := p.drv.AllocWindow(kind)
	if err != nil {
		return nil, fmt.Errorf("alloc MW: %w", err)
	}
	return &MW{pd: p, typ: t, key: key}, nil
}

// Type returns the window's type.
func (w *MW) Type() MWType { return w.typ }

// RKey returns the window's current key. Posting a bind changes it at once; peers
// can use the new key when the bind has completed.
func (w *MW) RKey() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key
}

// next advances the key to its next variant (ibv_inc_rkey).
func (w *MW) next() (old, key uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old = w.key
	w.key = old&^0xff | (old+1)&0xff
	return old, w.key
}

// Dealloc deallocates the window, bound or not (IBTA 10.6.7). A second Dealloc
// does nothing.
func (w *MW) Dealloc() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil
	}
	if err := w.pd.drv.FreeWindow(w.key); err != nil {
		return fmt.Errorf("dealloc MW: %w", err)
	}
	w.gone = true
	return nil
}
