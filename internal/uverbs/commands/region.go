//go:build linux

package commands

import (
	"fmt"
	"os"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

type pd struct{ a *adapter.PD }

func (p *pd) destroy() error { return p.a.Dealloc() }
func (p *pd) kind() kind     { return kindPD }

func (x *context) allocPD(c *command) error {
	a, err := adapter.AllocPDFor(x.dev.Adapter, x.Owner())
	if err != nil {
		return err
	}
	return x.created(c, &pd{a}, func(h uint32) ([]byte, []byte) { return uapi.Bytes(&uapi.HandleOnly{Handle: h}), nil })
}

// created assigns a handle to a new object and answers. If the program has as many
// objects of this kind as the device allows, or the answer cannot be written, it destroys
// the object.
func (x *context) created(c *command, o object, answer func(handle uint32) (core, driver []byte)) error {
	a, err := attributesOf(x), x.file.Account.Memory.Take(o.kind().bytes())
	if err != nil {
		_ = o.destroy()
		return fmt.Errorf("%T: %w", o, err)
	}
	if most, held := o.kind().limit(&a), x.held[o.kind()]; held >= most {
		_ = o.destroy()
		x.file.Account.Memory.Return(o.kind().bytes())
		return fmt.Errorf("%T: %w", o, client.Refuse(syscall.ENOMEM, reason.ObjectLimit, uint64(most), uint64(held)+1))
	}
	h := x.add(o)
	core, driver := answer(h)
	if err := c.respond(core, driver); err != nil {
		_, _ = remove[object](x, h)
		return err
	}
	return nil
}

func (x *context) deallocPD(c *command) error {
	h, _ := uapi.Parse[uapi.HandleOnly](c.core)
	_, err := remove[*pd](x, h.Handle)
	return err
}

// mr is registered memory of a process.
type mr struct {
	pd      *adapter.PD
	r       *memory.Region
	mapping *client.Mapping // its mirror in this process; nil for this process's own memory
	process *client.Process
	account *client.Account
}

func (m *mr) destroy() error {
	if err := m.pd.Deregister(m.r); err != nil {
		return err
	}
	if m.mapping == nil {
		return nil // memory of this process
	}
	m.process.AfterCopies(func() {
		m.mapping.Close()
		m.account.Mappings.Return(1)
	})
	return nil
}
func (m *mr) kind() kind { return kindMR }

const (
	knownAccess    = qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind | qp.ZeroBased
	roceAccess     = qp.OnDemand | qp.FlushGlobal | qp.FlushPersistent // in addition, of RoCE devices
	ignoredAccess  = 1<<7 | 0x3ff<<20                                  // huge pages, and optional flags
	writableAccess = qp.LocalWrite | qp.RemoteWrite | qp.RemoteAtomic
)

func (x *context) regMR(c *command) error {
	q, _ := uapi.Parse[uapi.RegMR](c.core)
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	access := qp.Access(q.AccessFlags) &^ ignoredAccess
	known := knownAccess
	if !x.dev.Adapter.IWARP() {
		known |= roceAccess
	}
	whole, err := implicit(c.Process, &q, access)
	if err != nil {
		return err
	}
	page := uint64(os.Getpagesize())
	// The kernel wants both addresses of a region at the same offset in a page.
	// Nothing here needs that. HCAVA is the address of the first byte: ZERO_BASED, by
	// which Linux's drivers change nothing either, does not set it to 0.
	aligned := (q.Start-q.HCAVA)&(page-1) == 0
	switch {
	case access&^known != 0:
		return fmt.Errorf("access flags %#x: %w", q.AccessFlags, syscall.EOPNOTSUPP)
	case q.Start+q.Length < q.Start || !aligned || q.Length > 1<<46 && !whole:
		return fmt.Errorf("%d bytes at %#x, as %#x: %w", q.Length, q.Start, q.HCAVA, syscall.EINVAL)
	}
	onDemand := access&qp.OnDemand != 0 // the memory may be mapped later
	from, to := q.Start, q.Start+q.Length
	if !onDemand {
		if from, to, err = c.Process.Mapped(from, to, access&writableAccess != 0); err != nil {
			return err
		}
	}
	m, err := x.newMR(c, p.a, &q, access)
	if err != nil {
		return err
	}
	if !onDemand && m.mapping != nil {
		collapse(c.Answer, HugePage(), q.Start, q.Length, from, to)
	}
	return x.created(c, m, func(h uint32) ([]byte, []byte) {
		return uapi.Bytes(&uapi.RegMRResp{MRHandle: h, LKey: m.r.Key, RKey: m.r.Key}), x.provider.mr(m.r.Key)
	})
}

// newMR creates a region of a program's memory.
func (x *context) newMR(c *command, p *adapter.PD, q *uapi.RegMR, access qp.Access) (*mr, error) {
	m := &mr{pd: p, process: c.Process, account: x.file.Account}
	if c.Process.Self() {
		err := m.inPlace(q, access)
		return m, err
	}
	if err := m.account.Mappings.Take(1); err != nil {
		return nil, err
	}
	if err := m.mapMirror(x.dev, q, access); err != nil {
		m.account.Mappings.Return(1)
		return nil, err
	}
	return m, nil
}

// inPlace registers memory of this process.
func (m *mr) inPlace(q *uapi.RegMR, access qp.Access) (err error) {
	m.r, err = m.pd.RegisterUnpinned(client.OwnMemory(q.Start, int(q.Length)), q.HCAVA, access)
	return err
}

// mapMirror registers memory of a process with a mirror.
func (m *mr) mapMirror(dev *Device, q *uapi.RegMR, access qp.Access) error {
	page := uint64(os.Getpagesize())
	lead := q.Start & (page - 1) // the mirror has the program's alignment
	mapping, err := m.process.MapMirror(dev, client.Extent{Start: q.Start, End: q.Start + q.Length})
	if err != nil {
		return err
	}
	mirror := mapping.Bytes[lead : lead+q.Length]
	if m.r, err = m.pd.RegisterForeign(mirror, q.HCAVA, access, memory.Foreign{Space: m.process, Addr: q.Start}); err != nil {
		mapping.Close()
		return err
	}
	m.mapping = mapping
	return nil
}

func (x *context) deregMR(c *command) error {
	h, _ := uapi.Parse[uapi.HandleOnly](c.core)
	_, err := remove[*mr](x, h.Handle)
	return err
}

type mw struct {
	pd  *adapter.PD
	key uint32
}

func (w *mw) destroy() error { return w.pd.FreeWindow(w.key) }
func (w *mw) kind() kind     { return kindMW }

func (x *context) allocMW(c *command) error {
	q, _ := uapi.Parse[uapi.AllocMW](c.core)
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	var kind memory.Kind
	switch q.Type {
	case 1:
		kind = memory.MW1
	case 2:
		kind = memory.MW2
	default:
		return syscall.EINVAL
	}
	key, err := p.a.AllocWindow(kind)
	if err != nil {
		return err
	}
	return x.created(c, &mw{p.a, key}, func(h uint32) ([]byte, []byte) { return uapi.Bytes(&uapi.AllocMWResp{MWHandle: h, RKey: key}), nil })
}

func (x *context) deallocMW(c *command) error {
	h, _ := uapi.Parse[uapi.HandleOnly](c.core)
	_, err := remove[*mw](x, h.Handle)
	return err
}

type ah struct {
	pd  *adapter.PD
	num uint32
}

func (h *ah) destroy() error { return h.pd.DestroyAH(h.num) }
func (h *ah) kind() kind     { return kindAH }

func (x *context) createAH(c *command) error {
	q, _ := uapi.Parse[uapi.CreateAH](c.core)
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	path, err := x.dev.Path(&q.Attr)
	if err != nil {
		return err
	}
	num, err := p.a.CreateAH(path)
	if err != nil {
		return err
	}
	return x.created(c, &ah{p.a, num}, func(h uint32) ([]byte, []byte) {
		return uapi.Bytes(&uapi.HandleOnly{Handle: h}), uapi.Bytes(&[2]uint32{num})
	})
}

func (x *context) destroyAH(c *command) error {
	h, _ := uapi.Parse[uapi.HandleOnly](c.core)
	_, err := remove[*ah](x, h.Handle)
	return err
}
