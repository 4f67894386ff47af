//go:build linux

package daemon

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// counts are the numbers of existing objects.
type counts struct{ pd, cq, qp, srq, mr, mw, ah, channel atomic.Int32 }

// Count implements provider.Device.
func (d *Device) Count() object.Counts {
	c := &d.counts
	return object.Counts{
		PD: int(c.pd.Load()), CQ: int(c.cq.Load()), QP: int(c.qp.Load()), SRQ: int(c.srq.Load()),
		MR: int(c.mr.Load()), MW: int(c.mw.Load()), AH: int(c.ah.Load()), Channel: int(c.channel.Load()),
	}
}

// A resource is an object of the daemon, named by a handle.
type resource struct {
	d      *Device
	handle uint32
	n      *atomic.Int32 // number of objects of its kind

	mu        sync.Mutex
	destroyed atomic.Bool
}

func (o *resource) made(d *Device, handle uint32, n *atomic.Int32) {
	o.d, o.handle, o.n = d, handle, n
	n.Add(1)
}

// end destroys the object with a call, unless it is destroyed already. It reports
// whether this call destroyed it.
func (o *resource) end(call func() error) (did bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.destroyed.Load() {
		return false, nil
	}
	if err := settled(call()); err != nil {
		return false, err
	}
	o.destroyed.Store(true)
	o.n.Add(-1)
	return true, nil
}

// destroy is end with a command that takes a handle and returns a number of events.
func (o *resource) destroy(number uint32, answer int) (did bool, err error) {
	return o.end(func() error {
		_, err := o.d.command(number, uapi.Bytes(&uapi.Destroy{Handle: o.handle}), nil, answer, 0)
		return err
	})
}

// gone returns why the object no longer exists.
func (o *resource) gone(what string) error {
	if o.destroyed.Load() {
		return fmt.Errorf("%s: %w", what, object.ErrDestroyed)
	}
	return o.d.Closed()
}

// A domain is a protection domain.
type domain struct {
	resource
	windows sync.Map // handles by key without the variable byte
	ahs     sync.Map // handles by number
}

// AllocPD implements provider.Device.
func (d *Device) AllocPD() (provider.PD, error) {
	r, err := ask[uapi.HandleOnly](d, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}))
	if err != nil {
		return nil, err
	}
	p := &domain{}
	p.made(d, r.Handle, &d.counts.pd)
	return p, nil
}

func (p *domain) check() error { return p.gone("protection domain") }

func (p *domain) Dealloc() error {
	_, err := p.end(func() error { return p.d.do(uapi.CmdDeallocPD, uapi.Bytes(&uapi.HandleOnly{Handle: p.handle})) })
	return err
}

// A pin keeps registered memory alive and at its address while the daemon uses it.
type pin struct{ runtime.Pinner }

// A region is a registered memory region.
type region struct {
	resource
	pin *pin
}

func (p *domain) Register(b provider.Buffer, base uint64, access qp.Access) (provider.Region, error) {
	if err := p.check(); err != nil {
		return provider.Region{}, err
	}
	d := p.d
	r := &region{pin: &pin{}}
	if len(b.Mem) > 0 {
		r.pin.Pin(unsafe.SliceData(b.Mem))
	}
	q := uapi.RegMR{
		Start: memory.Addr(b.Mem), Length: uint64(len(b.Mem)), HCAVA: base, PDHandle: p.handle, AccessFlags: uint32(access),
	}
	var own uapi.OwnMR
	var rights []int
	if b.Shared {
		own = uapi.OwnMR{Flags: uapi.SharedMemory, Offset: b.Offset}
		rights = []int{b.Memfd}
	}
	a, err := d.command(uapi.CmdRegMR, uapi.Bytes(&q), uapi.Bytes(&own), uapi.Size[uapi.RegMRResp](), 0, rights...)
	if err != nil {
		r.pin.Unpin()
		return provider.Region{}, err
	}
	d.mu.Lock()
	if !d.closed {
		d.pins[r.pin] = struct{}{}
	} else {
		r.pin.Unpin()
	}
	d.mu.Unlock()
	m, _ := uapi.Parse[uapi.RegMRResp](a)
	r.made(d, m.MRHandle, &d.counts.mr)
	return provider.Region{Key: m.LKey, Base: base, Len: uint64(len(b.Mem)), Of: r}, nil
}

// Reregister registers memory again and deregisters the old region. If that fails,
// it deregisters the new one instead.
func (p *domain) Reregister(old provider.Region, b provider.Buffer, base uint64, access qp.Access) (provider.Region, error) {
	r, err := p.Register(b, base, access)
	if err != nil {
		return r, err
	}
	if err := p.Deregister(old); err != nil {
		_ = p.Deregister(r) // no request uses the region yet
		return provider.Region{}, err
	}
	return r, nil
}

func (p *domain) Deregister(of provider.Region) error {
	r := of.Of.(*region)
	did, err := r.end(func() error { return r.d.do(uapi.CmdDeregMR, uapi.Bytes(&uapi.HandleOnly{Handle: r.handle})) })
	if !did {
		return err
	}
	d := r.d
	d.mu.Lock()
	_, pinned := d.pins[r.pin]
	delete(d.pins, r.pin)
	d.mu.Unlock()
	if pinned {
		r.pin.Unpin()
	}
	return nil
}

func (p *domain) AllocWindow(kind memory.Kind) (uint32, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	q := uapi.AllocMW{PDHandle: p.handle, Type: 1}
	if kind == memory.MW2 {
		q.Type = 2
	}
	r, err := ask[uapi.AllocMWResp](p.d, uapi.CmdAllocMW, uapi.Bytes(&q))
	if err != nil {
		return 0, err
	}
	p.windows.Store(r.RKey>>8, r.MWHandle)
	p.d.counts.mw.Add(1)
	return r.RKey, nil
}

func (p *domain) FreeWindow(key uint32) error {
	return p.free(&p.windows, key>>8, uapi.CmdDeallocMW, &p.d.counts.mw, "memory window")
}

func (p *domain) CreateAH(path qp.Path) (uint32, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	q := uapi.CreateAH{PDHandle: p.handle, Attr: p.d.ah(&path)}
	own := uapi.OwnPath{UDPPort: path.Dst.Port()}
	a, err := p.d.command(uapi.CmdCreateAH, uapi.Bytes(&q), uapi.Bytes(&own), uapi.Size[uapi.HandleOnly](), 4)
	if err != nil {
		return 0, err
	}
	r, _ := uapi.Parse[uapi.HandleOnly](a)
	num, _ := uapi.Parse[[1]uint32](a[uapi.Size[uapi.HandleOnly]():])
	p.ahs.Store(num[0], r.Handle)
	p.d.counts.ah.Add(1)
	return num[0], nil
}

func (p *domain) DestroyAH(num uint32) error {
	return p.free(&p.ahs, num, uapi.CmdDestroyAH, &p.d.counts.ah, "address handle")
}

// free frees an object that has another number besides its handle.
func (p *domain) free(from *sync.Map, number, command uint32, n *atomic.Int32, what string) error {
	h, ok := from.LoadAndDelete(number)
	if !ok {
		return fmt.Errorf("%s: %w", what, object.ErrDestroyed)
	}
	if err := settled(p.d.do(command, uapi.Bytes(&uapi.HandleOnly{Handle: h.(uint32)}))); err != nil {
		from.Store(number, h)
		return err
	}
	n.Add(-1)
	return nil
}
