//go:build linux

package commands

import (
	"sync/atomic"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
)

// directPages and directPage bound the handles that have an entry: larger ones are found
// under the file's lock.
const (
	directPages = 256
	directPage  = 256
)

// direct finds objects by their handles without a lock: those that a program in this
// process posts to and polls.
type direct struct {
	pages [directPages]atomic.Pointer[[directPage]atomic.Pointer[directEntry]]
}

// A directEntry is a queue pair, a completion queue or a shared receive queue.
type directEntry struct {
	qp  *queuePair
	cq  *cq
	srq *srq
}

// set enters the object of a handle, nil if there is none. The caller has the file's lock.
func (d *direct) set(handle uint32, o object) {
	if handle >= directPages*directPage {
		return
	}
	e := new(directEntry)
	switch o := o.(type) {
	case *queuePair:
		e.qp = o
	case *cq:
		e.cq = o
	case *srq:
		e.srq = o
	case nil:
		e = nil
	default:
		return
	}
	page := &d.pages[handle/directPage]
	if page.Load() == nil {
		if e == nil {
			return
		}
		page.Store(new([directPage]atomic.Pointer[directEntry]))
	}
	page.Load()[handle%directPage].Store(e)
}

func (d *direct) find(handle uint32) *directEntry {
	if handle < directPages*directPage {
		if p := d.pages[handle/directPage].Load(); p != nil {
			return p[handle%directPage].Load()
		}
	}
	return nil
}

// Doorbell implements client.Direct: it sends what the program has posted to a queue
// pair, on the caller's thread.
func (x *context) Doorbell(handle uint32) error {
	q, err := (*queuePair)(nil), error(nil)
	if e := x.direct.find(handle); e != nil && e.qp != nil {
		q = e.qp
	} else if !x.file.Between(func() { q, err = find[*queuePair](x, handle) }) {
		return syscall.EIO
	}
	if err != nil {
		return err
	}
	if q.a.StateHint() < qp.RTS {
		return syscall.EINVAL
	}
	q.a.Doorbell()
	return nil
}

// Progress implements client.Direct: it receives on the caller's thread what may complete
// to a completion queue, which the program found empty.
func (x *context) Progress(handle uint32, mayYield bool) error {
	q, err := (*cq)(nil), error(nil)
	if e := x.direct.find(handle); e != nil && e.cq != nil {
		q = e.cq
	} else if !x.file.Between(func() { q, err = find[*cq](x, handle) }) {
		return syscall.EIO
	}
	if err != nil {
		return err
	}
	q.a.Progress(mayYield)
	return nil
}

// Adapter implements client.Direct.
func (x *context) Adapter() *adapter.Device { return x.dev.Adapter }
