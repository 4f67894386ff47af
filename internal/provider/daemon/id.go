//go:build linux

package daemon

import (
	"fmt"
	"net/netip"
	"sync"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// An id is an id of the daemon's connection manager.
type id struct {
	d     *Device
	num   uint32 // the daemon's number of the id
	uid   uint64 // the number that events carry
	space cmid.PortSpace
	kind  qp.Type

	mu            sync.Mutex // taken before an event channel's
	ch            *events
	owner         any
	local, remote netip.AddrPort
	state         cmid.State // the state according to events, see known
	waiting       bool       // a connect request that the program has not accepted yet
	destroyed     bool
	groups        []*membership
}

// NewID implements provider.EventChannel.
func (h *events) NewID(space cmid.PortSpace, t qp.Type, owner any) (provider.ID, error) {
	if t == 0 {
		t = cmid.ServiceType(space)
	}
	x := h.newID(&id{space: space, kind: t, owner: owner})
	q := uapi.CMCreate{UID: x.uid, PS: uint16(space), QPType: uint8(t)}
	a, err := h.command(uapi.CMCreateID, uapi.Bytes(&q), 8, uapi.Size[uapi.HandleOnly](), nil)
	if err != nil {
		x.forget()
		return nil, err
	}
	r, _ := uapi.Parse[uapi.HandleOnly](a)
	x.num = r.Handle
	return x, nil
}

// newID adds a new id to the channel.
func (h *events) newID(x *id) *id {
	x.d, x.ch = h.d, h
	x.uid = h.d.own(x)
	h.join(x)
	return x
}

// forget removes this process's state of the id.
func (x *id) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.destroyed = true
	x.d.disown(x.uid)
	for _, g := range x.groups {
		x.d.disown(g.uid)
	}
	x.groups = nil
	x.ch.leave(x)
}

// channel returns the channel that the id reports to, for an operation on the
// id. It fails once the id is destroyed.
func (x *id) channel(op string) (*events, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.destroyed {
		return nil, fmt.Errorf("%s: %w", op, cmid.ErrDestroyed)
	}
	return x.ch, nil
}

// do makes a command without an answer.
func (x *id) do(op string, number uint32, body []byte) error {
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	return h.do(number, body)
}

// ask makes a command with an answer of n bytes.
func (x *id) ask(op string, number uint32, q *uapi.CMByID, n int) ([]byte, error) {
	h, err := x.channel(op)
	if err != nil {
		return nil, err
	}
	q.ID = x.num
	return h.ask(number, uapi.Bytes(q), n)
}

// SetOwner implements provider.ID.
func (x *id) SetOwner(owner any) {
	x.mu.Lock()
	x.owner = owner
	x.mu.Unlock()
}

func (x *id) ownerNow() any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.owner
}

// Migrate implements provider.ID. The daemon moves the events that are still
// queued.
func (x *id) Migrate(to provider.EventChannel) error {
	h := to.(*events)
	from, err := x.channel("migrate")
	if err != nil || from == h {
		return err
	}
	q := uapi.CMByID{ID: x.num, Arg: uint32(from.fd)}
	if _, err := h.ask(uapi.CMMigrateID, uapi.Bytes(&q), uapi.Size[uapi.DestroyResp]()); err != nil {
		return err
	}
	x.move(from, h)
	return nil
}

// move makes the id report to another channel. If the device has ended
// meanwhile, the id reports that there.
func (x *id) move(from, to *events) {
	x.d.moves.Lock()
	defer x.d.moves.Unlock()
	x.mu.Lock()
	x.ch = to
	left, lost := from.leave(x), !x.destroyed && to.join(x)
	x.mu.Unlock()
	if left || lost && x.remove() {
		to.tell(x)
	}
}

// Destroy implements provider.ID. If the daemon is gone there is nothing to
// destroy.
func (x *id) Destroy() {
	h, err := x.channel("destroy")
	if err != nil {
		return
	}
	x.forget()
	_, _ = h.ask(uapi.CMDestroyID, uapi.Bytes(&uapi.CMByID{ID: x.num}), uapi.Size[uapi.DestroyResp]())
}

var _ provider.ID = (*id)(nil)
