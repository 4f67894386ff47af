package verbs

import (
	"context"
	"fmt"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/samehost"
)

// A View is memory of a queue pair's peer that this process has mapped.
type View struct{ v *samehost.View }

// View maps n bytes of a region of the queue pair's peer at an address, by the region's R_Key,
// so that the program reads them without a work request (UCX: ucp_rkey_ptr). The peer must be
// on the same host and of the same user, and its region must cover a whole allocation of
// AllocMemory of at least 16 KiB, with the right RemoteRead. Otherwise View fails with a named
// reason (ReasonOf), or with an error that matches errors.ErrUnsupported.
//
// View asks the peer's device, which takes some tens of microseconds, or longer if the peer
// gets no processor time; ctx bounds the wait. The view stays valid until Close, even if the
// region is deregistered. The peer may then use the memory for another purpose, or free it,
// while the view keeps its pages. See the package documentation of sync/atomic for how two
// processes tell each other that bytes are ready.
func (q *QP) View(ctx context.Context, addr uint64, rkey uint32, n int) (*View, error) {
	if n <= 0 {
		return nil, reason.BadArgument(1, uint64(n), "view of %d bytes: expected at least 1", n)
	}
	err := q.drv.Gone()
	var v *samehost.View
	if err == nil {
		v, err = q.view(ctx, addr, rkey, n)
	}
	if err != nil {
		return nil, fmt.Errorf("view of a peer's memory: %w", err)
	}
	return &View{v}, nil
}

func (q *QP) view(ctx context.Context, addr uint64, rkey uint32, n int) (*samehost.View, error) {
	d := q.Device()
	switch q.Path() {
	case PathSameHost:
	case PathSameProcess:
		return q.viewOwn(addr, rkey, n)
	case PathNetwork:
		if err := q.WhyNetwork(); err != nil {
			return nil, err
		}
		fallthrough
	default:
		return nil, reason.NotSupported("a view of memory of a peer on path %q", q.Path())
	}
	a := q.drv.Query()
	return d.sameHost.host.View(ctx, a.Path.Dst, a.DestQPN, rkey, addr, n)
}

// viewOwn implements View for a peer in this process.
func (q *QP) viewOwn(addr uint64, rkey uint32, n int) (*samehost.View, error) {
	peer := q.Device().stack.reg().Find(qp.InZone(q.drv.Query().Path.Dst, q.Device().Addr()))
	if peer == nil {
		return nil, reason.NotSupported("a view of a device that has closed")
	}
	s, offset, ok := peer.Adapter.Memory.Locate(rkey, addr)
	if !ok {
		return nil, reason.Detail{Reason: reason.KeyUnknown, Found: uint64(rkey)}.Err()
	}
	return samehost.ViewOwn(s, offset, n)
}

// Bytes returns the memory for reading: a store to it ends the program with a fault. It must
// not be used after Close.
func (v *View) Bytes() []byte { return v.v.Bytes() }

// Close unmaps the memory. A second Close does nothing.
func (v *View) Close() error { return v.v.Close() }
