//go:build linux

package daemon

import (
	"context"
	"errors"

	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// own assigns a number to an object. Events carry it.
func (d *Device) own(owner any) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.next
	d.next++
	d.owners[n] = owner
	return n
}

func (d *Device) disown(n uint64) {
	d.mu.Lock()
	delete(d.owners, n)
	d.mu.Unlock()
}

func (d *Device) owner(n uint64) (any, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.owners[n]
	return o, ok
}

// NextEvent implements provider.Device. If the daemon ends, the last event is a
// fatal error of the device.
func (d *Device) NextEvent(ctx context.Context) (provider.AsyncEvent, error) {
	for {
		var o uapi.OwnEvent
		err := d.async.next(ctx, uapi.Bytes(&o))
		switch {
		case errors.Is(err, object.ErrClosed) && !d.leaving.Load() && !d.fatal.Swap(true):
			return provider.AsyncEvent{Type: provider.EventDeviceFatal}, nil
		case err != nil:
			return provider.AsyncEvent{}, err
		}
		e := provider.AsyncEvent{Type: provider.EventType(o.EventType)}
		if e.Type == provider.EventDeviceFatal {
			d.fatal.Store(true)
		}
		if d.Info.Reasons {
			e.Detail = reason.Detail{Reason: reason.Reason(o.Reason), Expected: o.Expected, Found: o.Found}
		}
		if o.Element < firstOwner {
			return e, nil
		}
		if e.Owner, _ = d.owner(o.Element); e.Owner != nil {
			return e, nil // ignore the events of destroyed objects
		}
	}
}
