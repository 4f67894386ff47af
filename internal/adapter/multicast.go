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
	l := q.lane
	l.Lock()
	defer l.Unlock()
	if err := q.gone(); err != nil {
		return err
	}
	if q.Type != qp.UD {
		return fmt.Errorf("multicast wants a UD queue pair, found %v: %w", q.Type, errors.ErrUnsupported)
	}
	if !group.IsMulticast() {
		return fmt.Errorf("%v is no multicast address", group)
	}
	for _, x := range l.groups[group] {
		if x == q {
			return nil
		}
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
	l := q.lane
	l.Lock()
	defer l.Unlock()
	if err := q.gone(); err != nil {
		return err
	}
	if !q.detach(group) {
		return fmt.Errorf("queue pair %#06x is not attached to %v", q.QPN, group)
	}
	return nil
}

func (q *QP) detach(group netip.Addr) (found bool) {
	l := q.lane
	var kept []*QP
	for _, x := range l.groups[group] {
		if x == q {
			found = true
		} else {
			kept = append(kept, x)
		}
	}
	if !found {
		return false
	}
	l.groups[group] = kept
	q.groups = slices.DeleteFunc(q.groups, func(g netip.Addr) bool { return g == group })
	if len(kept) == 0 {
		delete(l.groups, group)
		_ = l.net.Leave(group) // the kernel forgets it with the socket at the latest
	}
	return true
}
