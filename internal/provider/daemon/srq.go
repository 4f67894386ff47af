//go:build linux

package daemon

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/provider"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A receives is a shared receive queue.
type receives struct {
	resource
	ring   atomic.Pointer[queue.RecvRing]
	maxSGE int
	number uint64
	resize uapi.MmInfo // the location of the ring after a resize
}

// CreateSRQ implements provider.PD.
func (p *domain) CreateSRQ(depth, maxSGE, limit int, owner any) (provider.SRQ, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	d := p.d
	s := &receives{maxSGE: maxSGE, number: d.own(owner)}
	q := uapi.CreateSRQ{UserHandle: s.number, PDHandle: p.handle, MaxWR: uint32(depth), MaxSGE: uint32(maxSGE), SRQLimit: uint32(limit)}
	out := uapi.Size[uapi.CreateSRQResp]()
	a, err := d.command(uapi.CmdCreateSRQ, uapi.Bytes(&q), nil, out, uapi.Size[uapi.CreateSRQDriver]())
	if err != nil {
		d.disown(s.number)
		return nil, err
	}
	r, _ := uapi.Parse[uapi.CreateSRQResp](a)
	mi, _ := uapi.Parse[uapi.CreateSRQDriver](a[out:])
	s.made(d, r.SRQHandle, &d.counts.srq)
	if err := s.mapRing(mi.MI, int(r.MaxWR)); err != nil {
		return nil, errors.Join(err, s.Destroy())
	}
	return s, nil
}

func (s *receives) mapRing(mi uapi.MmInfo, depth int) error {
	mem, err := s.d.mmap(mi, queue.RecvRingLen(depth, s.maxSGE))
	if err != nil {
		return err
	}
	r := queue.RecvRingOn(mem, depth, s.maxSGE)
	keep(r, mem)
	s.ring.Store(r)
	return nil
}

// Ring implements provider.SRQ.
func (s *receives) Ring() *queue.RecvRing { return s.ring.Load() }

// SetLimit implements provider.SRQ.
func (s *receives) SetLimit(limit int) error {
	if err := s.Gone(); err != nil {
		return err
	}
	if limit < 0 {
		limit = 1 << 31 // the daemon refuses it, like any limit above the depth
	}
	return s.d.do(uapi.CmdModifySRQ, uapi.Bytes(&uapi.ModifySRQ{SRQHandle: s.handle, AttrMask: uapi.SRQLimit, SRQLimit: uint32(limit)}))
}

func (s *receives) query() (uapi.QuerySRQResp, error) {
	return ask[uapi.QuerySRQResp](s.d, uapi.CmdQuerySRQ, uapi.Bytes(&uapi.QuerySRQ{SRQHandle: s.handle}))
}

// Limit implements provider.SRQ.
func (s *receives) Limit() int {
	r, err := s.query()
	if err != nil {
		return 0
	}
	return int(r.SRQLimit)
}

// Resize implements provider.SRQ.
func (s *receives) Resize(depth int) error {
	if err := s.Gone(); err != nil {
		return err
	}
	var to [8]byte
	binary.NativeEndian.PutUint64(to[:], uint64(uintptr(unsafe.Pointer(&s.resize))))
	q := uapi.ModifySRQ{SRQHandle: s.handle, AttrMask: uapi.SRQMaxWR, MaxWR: uint32(depth)}
	if _, err := s.d.command(uapi.CmdModifySRQ, uapi.Bytes(&q), to[:], 0, 0); err != nil {
		return err
	}
	r, err := s.query()
	if err != nil {
		return err
	}
	return s.mapRing(s.resize, int(r.MaxWR))
}

// Gone implements provider.SRQ.
func (s *receives) Gone() error { return s.gone("shared receive queue") }

// Destroy implements provider.SRQ.
func (s *receives) Destroy() error {
	did, err := s.destroy(uapi.CmdDestroySRQ, uapi.Size[uapi.DestroyResp]())
	if did {
		s.d.disown(s.number)
	}
	return err
}

// OpenXRCD implements provider.Device. The commands of Linux's rxe provider, which a daemon
// speaks, have no XRC.
func (d *Device) OpenXRCD() (provider.XRCD, error) {
	return nil, reason.NotSupported("a daemon's device has no XRC: expected a device of this process")
}
