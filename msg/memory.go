package msg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"softrdma/internal/carrier"
	"softrdma/msg/internal/format"
	"softrdma/verbs"
)

// The errors of remote memory.
var (
	// ErrKey is matched by errors about bytes that are not the key of a region.
	ErrKey = format.ErrKey
	// ErrRights is matched by the error of an access that the region's key does not allow.
	ErrRights = format.ErrRights
	// ErrBounds is matched by the error of an access beyond the end of a region.
	ErrBounds = format.ErrBounds
	// ErrAlignment is matched by the error of an atomic operation at an address that is not a
	// multiple of the word's length.
	ErrAlignment = format.ErrAlignment
	// ErrNoView is matched by the error of Remote.View if the region cannot be mapped into this
	// process.
	ErrNoView = errors.New("the peer's region cannot be mapped")
	// ErrRefused is matched by the error of a connection that ended because an access was
	// refused: the region was unmapped, or a key did not come from Region.Key.
	ErrRefused = carrier.ErrRefused
)

// Rights are what peers that have a region's key may do with its memory.
type Rights uint8

// The rights.
const (
	AllowGet Rights = 1 << iota
	AllowPut
	AllowAtomic
	AllowAll = AllowGet | AllowPut | AllowAtomic
)

// A Region is memory of a worker that peers access without this program's help. They need its
// key.
type Region struct {
	w      *Worker
	mrs    []*verbs.MR // by device; nil if that has closed
	rights Rights
	buf    []byte

	unmap  sync.Once
	err    error         // of Unmap
	memory *verbs.Memory // nil if the program owns the memory
}

// Map gives peers access to buf, which may be empty, until Unmap or the worker's Close. The program
// owns the memory, may use it meanwhile, and must not use it for something else before Unmap
// returns. Atomic operations of 32 bits need whole aligned words of 64 bits in buf.
func (w *Worker) Map(buf []byte, rights Rights) (*Region, error) {
	if rights&^AllowAll != 0 {
		return nil, fmt.Errorf("msg: map memory: rights %#x, expected at most %#x", uint8(rights), uint8(AllowAll))
	}
	return w.mapMemory(&Region{w: w, rights: rights, buf: buf})
}

// Allocate is like Map for n bytes of new memory outside of the Go heap, see verbs.AllocMemory. It
// is the fastest memory for peers on the same host. Unmap frees it.
func (w *Worker) Allocate(n int, rights Rights) (*Region, error) {
	m, err := verbs.AllocMemory(n, verbs.AllocConfig{Device: w.on.Dev})
	if err != nil {
		return nil, err
	}
	r, err := w.Map(m.Bytes(), rights)
	if err != nil {
		_ = m.Free() // no region is left
		return nil, err
	}
	r.memory = m
	return r, nil
}

func (w *Worker) mapMemory(r *Region) (*Region, error) {
	allowed := verbs.LocalWrite
	if r.rights&AllowGet != 0 {
		allowed |= verbs.RemoteRead
	}
	if r.rights&AllowPut != 0 {
		allowed |= verbs.RemoteWrite
	}
	if r.rights&AllowAtomic != 0 {
		allowed |= verbs.RemoteAtomic
	}
	w.e.Lock()
	defer w.unlock()
	if w.closed {
		return nil, ErrClosed
	}
	for _, d := range w.rails {
		var m *verbs.MR
		var err error
		if !d.on.Gone.Load() {
			m, err = d.pd.RegisterMemory(r.buf, allowed)
		}
		if err == nil && m != nil && len(r.mrs) > 0 && r.mrs[0] != nil && r.mrs[0].Addr() != m.Addr() {
			err = fmt.Errorf("msg: map memory: address %#x on one device, %#x on another", r.mrs[0].Addr(), m.Addr())
			_ = m.Deregister() // no window is bound to it
		}
		if err != nil {
			_ = r.deregister() // the first error counts
			return nil, err
		}
		r.mrs = append(r.mrs, m)
	}
	w.regions = append(w.regions, r)
	return r, nil
}

// Bytes returns the memory. That of Allocate must not be used after Unmap.
func (r *Region) Bytes() []byte { return r.buf }

// Unmap ends the access of peers. When it returns, no peer accesses the memory any more. A peer that
// tries it loses its connection with an error that matches ErrRefused. The program's own requests
// that use the memory must have ended before. A second Unmap does nothing.
func (r *Region) Unmap() error {
	r.unmap.Do(func() {
		w := r.w
		w.e.Lock()
		if i := slices.Index(w.regions, r); i >= 0 {
			w.regions = slices.Delete(w.regions, i, i+1)
		}
		w.unlock()
		if r.err = r.deregister(); r.err == nil && r.memory != nil {
			r.buf = nil
			r.err = r.memory.Free()
		}
	})
	return r.err
}

func (r *Region) deregister() (err error) {
	for i, m := range r.mrs {
		if m == nil {
			continue
		}
		if e := m.Deregister(); err == nil && !r.w.rails[i].on.Gone.Load() {
			err = e
		}
	}
	return err
}

// unmapAll ends all regions of a worker that closes.
func (w *Worker) unmapAll() (err error) {
	w.e.Lock()
	regions := slices.Clone(w.regions)
	w.unlock()
	for _, r := range regions {
		err = errors.Join(err, r.Unmap())
	}
	return err
}

// Key returns the bytes by which peers name the region, at most 64. A process that has them may use
// the region's rights.
func (r *Region) Key() []byte {
	k := format.Key{
		Rights: uint8(r.rights), BigEndian: binary.NativeEndian.Uint16([]byte{0, 1}) == 1,
		Worker: r.w.address.Worker, Length: uint64(len(r.buf)),
	}
	for _, m := range r.mrs {
		if m == nil {
			k.Keys = append(k.Keys, 0)
			continue
		}
		k.Address = m.Addr()
		k.Keys = append(k.Keys, m.RKey())
	}
	return k.Bytes()
}
