package adapter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/qp"
)

// AttachMulticast makes a UD queue pair receive datagrams to an IP multicast
// group (IBTA 10.5).
func (q *QP) AttachMulticast(group netip.Addr) error {
	q.lane.Lock()
	defer q.lane.Unlock()
	if err := q.gone(); err != nil {
		return err
	}
	l := q.packets
	if q.Type != qp.UD {
		return fmt.Errorf("multicast wants a UD queue pair, found %v: %w", q.Type, errors.ErrUnsupported)
	}
	if !group.IsMulticast() {
		return fmt.Errorf("%v is no multicast address", group)
	}
	if slices.Contains(l.groups[group], q) {
		return nil
	}
	if len(l.groups[group]) == 0 {
		if err := l.net.Join(group); err != nil {
			return fmt.Errorf("joining %v: %w", group, err)
		}
	}
	l.groups[group] = append(l.groups[group], q)
	q.groups = append(q.groups, group)
	return nil
}

// DetachMulticast ends AttachMulticast.
func (q *QP) DetachMulticast(group netip.Addr) error {
	q.lane.Lock()
	defer q.lane.Unlock()
	if err := q.gone(); err != nil {
		return err
	}
	if !slices.Contains(q.groups, group) {
		return fmt.Errorf("queue pair %#06x is not attached to %v", q.QPN, group)
	}
	q.detach(group)
	return nil
}

func (q *QP) detach(group netip.Addr) {
	q.groups = slices.DeleteFunc(q.groups, func(g netip.Addr) bool { return g == group })
	l := q.packets
	// A copy: a datagram may be on its way to all members.
	left := slices.DeleteFunc(slices.Clone(l.groups[group]), func(x *QP) bool { return x == q })
	if l.groups[group] = left; len(left) == 0 {
		delete(l.groups, group)
		_ = l.net.Leave(group) // the kernel forgets it with the socket at the latest
	}
}
