//go:build linux

package commands

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// On-demand paging: a region may be of memory that is not mapped yet, or mapped again later.
// Nothing pins the memory of any region here, so only the checks of the registration differ. A
// region of a program in this process may be implicit: the whole address space. One of another
// process may not, as it would need a mirror of that size.

// What exQueryDevice says of on-demand paging (ib_uverbs_odp_caps).
const (
	odpSupport  = 1 << 0
	odpImplicit = 1 << 1

	odpSend        = 1 << 0
	odpRecv        = 1 << 1
	odpWrite       = 1 << 2
	odpRead        = 1 << 3
	odpAtomic      = 1 << 4
	odpSRQRecv     = 1 << 5
	odpFlush       = 1 << 6
	odpAtomicWrite = 1 << 7

	odpUD = odpSend | odpRecv | odpSRQRecv
	odpUC = odpUD | odpWrite
	odpRC = odpUC | odpRead | odpAtomic | odpFlush | odpAtomicWrite
)

// addOnDemand fills in what a RoCE device says of on-demand paging to a process.
func addOnDemand(r *uapi.ExQueryDeviceResp, p *client.Process) {
	r.ODPGeneral, r.ODPTransport = odpSupport, [3]uint32{odpRC, odpUC, odpUD}
	if p.Self() {
		r.ODPGeneral |= odpImplicit
	}
}

// lowest is the lowest address of an implicit region. Linux maps nothing below it.
const lowest = 1 << 16

// highest returns the end of a program's addresses.
func highest() uint64 {
	if runtime.GOARCH == "arm64" {
		return 1 << 48
	}
	return 1<<47 - 1<<12 // the last page is not a program's
}

// implicit reports whether a region is of the whole address space, and gives it its bounds.
func implicit(p *client.Process, q *uapi.RegMR, access qp.Access) (bool, error) {
	switch {
	case access&qp.OnDemand == 0 || q.Start != 0 || q.Length != math.MaxUint64:
		return false, nil
	case !p.Self():
		return false, fmt.Errorf("a region of the whole address space wants the engine in the program's process: %w", syscall.EOPNOTSUPP)
	}
	q.Start, q.HCAVA, q.Length = lowest, lowest, highest()-lowest
	return true, nil
}

// Advice of ibv_advise_mr, and its flag.
const (
	advicePrefetch        = 0
	advicePrefetchWrite   = 1
	advicePrefetchNoFault = 2

	adviseFlush = 1 << 0 // wait for it, and report failures
)

// adviseMR executes ADVISE_MR, which brings memory in before it is used. Memory of a
// program of another process is brought in when it is used.
func (x *context) adviseMR(c *client.Call, a *uapi.AdviseMR) error {
	p, err := find[*pd](x, a.PDHandle)
	switch {
	case err != nil:
		return err
	case a.Advice > advicePrefetchNoFault:
		return fmt.Errorf("advice %d: %w", a.Advice, syscall.EOPNOTSUPP)
	case a.Flags&^adviseFlush != 0:
		return fmt.Errorf("flags of advice %#x: %w", a.Flags, syscall.EINVAL)
	}
	list := make([]memory.SGE, a.SGEs)
	for i := range list {
		if err := c.Process.Load(uapi.Bytes(&list[i]), a.List+uint64(i*uapi.Size[memory.SGE]())); err != nil {
			return err
		}
	}
	var need qp.Access
	if a.Advice == advicePrefetchWrite {
		need = qp.LocalWrite
	}
	table := x.dev.Adapter.Memory
	if d := table.CheckList(p.a.ID, list, need); d.Reason != reason.None {
		return fmt.Errorf("advice about memory: %w", client.Refuse(syscall.EFAULT, d.Reason, d.Expected, d.Found))
	}
	if !c.Process.Self() || a.Advice == advicePrefetchNoFault && a.Flags&adviseFlush == 0 {
		return nil
	}
	for i := range list {
		e := &list[i]
		if e.Length == 0 {
			continue
		}
		at := memory.Addr(table.Lookup(e.LKey).Bytes(e.Addr, int(e.Length)))
		if err := prefetch(c.Process, at, uint64(e.Length), a); err != nil && a.Flags&adviseFlush != 0 {
			return err
		}
	}
	return nil
}

// prefetch brings memory of this process in.
func prefetch(p *client.Process, at, n uint64, a *uapi.AdviseMR) error {
	if a.Flags&adviseFlush != 0 {
		if _, _, err := p.Mapped(at, at+n, a.Advice == advicePrefetchWrite); err != nil {
			return err
		}
	}
	how := unix.MADV_POPULATE_READ
	switch a.Advice {
	case advicePrefetchNoFault:
		return nil // what is in memory is used in place
	case advicePrefetchWrite:
		how = unix.MADV_POPULATE_WRITE
	}
	page := uint64(os.Getpagesize())
	from := at &^ (page - 1)
	_, _, no := unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr((at+n+page-1)&^(page-1)-from), uintptr(how))
	if no == 0 || errors.Is(no, syscall.EINVAL) { // Linux before 5.14 brings it in at its first use
		return nil
	}
	return fmt.Errorf("memory at %#x: %w", at, syscall.EFAULT)
}
