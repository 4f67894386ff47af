//go:build linux

package uverbs

import (
	"bufio"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// The order in which objects go with their file.
const (
	rankQP = iota
	rankQueue
	rankMemory
	rankPD
	maxRank = rankPD
)

type pd struct{ a *adapter.PD }

func (p *pd) destroy() error { return p.a.Dealloc() }
func (p *pd) rank() int      { return rankPD }

func (x *context) allocPD(c *command) error {
	a, err := x.dev.a.AllocPD()
	if err != nil {
		return err
	}
	return x.created(c, &pd{a}, func(h uint32) ([]byte, []byte) { return bytesOf(&handleOnly{h}), nil })
}

// created gives a new object a handle and answers; an object that the program
// cannot be told of is taken away again.
func (x *context) created(c *command, o object, answer func(handle uint32) (core, driver []byte)) error {
	h := x.add(o)
	core, driver := answer(h)
	if err := c.respond(core, driver); err != nil {
		_, _ = remove[object](x, h)
		return err
	}
	return nil
}

func (x *context) deallocPD(c *command) error {
	h, _ := parse[handleOnly](c.core)
	_, err := remove[*pd](x, h.Handle)
	return err
}

// mr is registered memory of a process, with the mirror that stands for it here.
type mr struct {
	pd      *adapter.PD
	r       *memory.Region
	mapping []byte
}

func (m *mr) destroy() error {
	if err := m.pd.Deregister(m.r); err != nil {
		return err
	}
	return unix.Munmap(m.mapping)
}
func (m *mr) rank() int { return rankMemory }

const (
	knownAccess    = qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind
	ignoredAccess  = 1<<7 | 0x3ff<<20 // huge pages; what is optional may be ignored
	writableAccess = qp.LocalWrite | qp.RemoteWrite | qp.RemoteAtomic
)

func (x *context) regMR(c *command) error {
	q, _ := parse[regMR](c.core)
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	access := qp.Access(q.AccessFlags) &^ ignoredAccess
	page := uint64(os.Getpagesize())
	switch {
	case access&^knownAccess != 0:
		return fmt.Errorf("access flags %#x: %w", q.AccessFlags, syscall.EOPNOTSUPP)
	case q.Length == 0 || q.Start+q.Length < q.Start || (q.Start-q.HCAVA)&(page-1) != 0 || q.Length > 1<<46:
		return fmt.Errorf("%d bytes at %#x, as %#x: %w", q.Length, q.Start, q.HCAVA, syscall.EINVAL)
	}
	if err := c.process.mapped(q.Start, q.Start+q.Length, access&writableAccess != 0); err != nil {
		return err
	}
	m, err := newMR(p.a, c.process, &q, access)
	if err != nil {
		return err
	}
	return x.created(c, m, func(h uint32) ([]byte, []byte) { return bytesOf(&regMRResp{h, m.r.Key, m.r.Key}), nil })
}

func newMR(p *adapter.PD, space memory.Space, q *regMR, access qp.Access) (*mr, error) {
	page := uint64(os.Getpagesize())
	lead := q.Start & (page - 1) // bytes of the mirror are aligned as the program's
	mapping, err := unix.Mmap(-1, 0, int(lead+q.Length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	r, err := p.RegisterForeign(mapping[lead:lead+q.Length], q.HCAVA, access, memory.Foreign{Space: space, Addr: q.Start})
	if err != nil {
		_ = unix.Munmap(mapping)
		return nil, err
	}
	return &mr{pd: p, r: r, mapping: mapping}, nil
}

// mapped tells whether a process has all of a range mapped, and may write it.
func (p *process) mapped(start, end uint64, write bool) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		return syscall.ESRCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); start < end && s.Scan(); {
		var from, to uint64
		var perms string
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x %4s", &from, &to, &perms); n != 3 || to <= start {
			continue
		}
		if from > start || perms[0] != 'r' || write && perms[1] != 'w' {
			break
		}
		start = to
	}
	if start < end {
		return fmt.Errorf("memory at %#x: %w", start, syscall.EFAULT)
	}
	return nil
}

func (x *context) deregMR(c *command) error {
	h, _ := parse[handleOnly](c.core)
	_, err := remove[*mr](x, h.Handle)
	return err
}

type mw struct {
	pd  *adapter.PD
	key uint32
}

func (w *mw) destroy() error { return w.pd.FreeWindow(w.key) }
func (w *mw) rank() int      { return rankQueue } // windows before regions

func (x *context) allocMW(c *command) error {
	q, _ := parse[allocMW](c.core)
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
	return x.created(c, &mw{p.a, key}, func(h uint32) ([]byte, []byte) { return bytesOf(&allocMWResp{h, key}), nil })
}

func (x *context) deallocMW(c *command) error {
	h, _ := parse[handleOnly](c.core)
	_, err := remove[*mw](x, h.Handle)
	return err
}

type ah struct {
	pd  *adapter.PD
	num uint32
}

func (h *ah) destroy() error { return h.pd.DestroyAH(h.num) }
func (h *ah) rank() int      { return rankQueue }

func (x *context) createAH(c *command) error {
	q, _ := parse[createAH](c.core)
	p, err := find[*pd](x, q.PDHandle)
	if err != nil {
		return err
	}
	g := &q.Attr.GRH
	if q.Attr.PortNum != 1 || q.Attr.IsGlobal == 0 {
		return syscall.EINVAL // RoCE has global routes alone
	}
	path, err := x.dev.path(g.DGID, g.SGIDIndex, g.FlowLabel, g.TrafficClass, g.HopLimit)
	if err != nil {
		return err
	}
	num, err := p.a.CreateAH(path)
	if err != nil {
		return err
	}
	return x.created(c, &ah{p.a, num}, func(h uint32) ([]byte, []byte) {
		return bytesOf(&handleOnly{h}), bytesOf(&[2]uint32{num})
	})
}

func (x *context) destroyAH(c *command) error {
	h, _ := parse[handleOnly](c.core)
	_, err := remove[*ah](x, h.Handle)
	return err
}
