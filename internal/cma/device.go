package cma

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
)

// A device is a device in use by ids. It exists while uses is not zero. The Manager
// holds one lease for all uses.
type device struct {
	m         *Manager
	dev       *adapter.Device
	lease     Lease
	fabric    Fabric // nil unless the device is a port of one
	uses      int
	ids       map[*ID]struct{} // the ids on the device
	listeners map[any]*ID      // keys are *cm.Listener or *adapter.StreamListener
}

// acquire leases the device of a local address and counts one more use of it.
func (m *Manager) acquire(local netip.Addr, o *options) (*device, error) {
	x, err := m.host.Acquire(local, o.device)
	if err != nil {
		return nil, err
	}
	return m.leased(x)
}

// leased counts one more use of a leased device. If the Manager has a lease of
// the device, it releases the new one.
func (m *Manager) leased(x Lease) (*device, error) {
	dev := x.Device()
	if d := m.devices[dev]; d != nil {
		x.Release()
		d.uses++
		return d, nil
	}
	d := &device{m: m, dev: dev, lease: x, fabric: x.Fabric(), uses: 1, ids: make(map[*ID]struct{}), listeners: make(map[any]*ID)}
	err := d.manage(func(c *cm.Manager, now time.Duration) error {
		c.SetHandler(func(e *cm.Event) { m.inbox.add(d, e) })
		return nil
	})
	if err != nil {
		x.Release()
		return nil, fmt.Errorf("device %v: %w", dev.Local(), err)
	}
	m.devices[dev] = d
	return d, nil
}

// addr is the IP address by which ids name the device.
func (d *device) addr() netip.Addr {
	if d.fabric != nil {
		return d.fabric.Addr()
	}
	return d.dev.Local().Addr()
}

// release removes one use.
func (d *device) release() {
	if d.uses--; d.uses > 0 {
		return
	}
	delete(d.m.devices, d.dev)
	_ = d.manage(func(c *cm.Manager, now time.Duration) error { // fails if the device is closed, which reports nothing
		c.SetHandler(nil)
		return nil
	})
	d.lease.Release()
}

// manage is do for a device with a communication manager.
func (d *device) manage(f func(c *cm.Manager, now time.Duration) error) error {
	if d.dev.IWARP() {
		return d.dev.Closed()
	}
	return d.do(f)
}

// do runs f on the device's communication manager. What it reports meanwhile goes
// to the inbox.
func (d *device) do(f func(c *cm.Manager, now time.Duration) error) error {
	var err error
	if e := d.dev.CM(func(c *cm.Manager, now time.Duration) { err = f(c, now) }); e != nil {
		return e
	}
	return err
}

// refuse counts and traces a refusal by this package.
func (d *device) refuse(why reason.Detail) { d.dev.Trace.Refuse(cmQPN, why) }

// cmQPN is the queue pair number of communication management (IBTA 12.2), the
// general service interface.
const cmQPN = 1

// use gives the id a device. The id takes over the use that the caller counted.
func (id *ID) use(d *device) {
	id.dev = d
	d.ids[id] = struct{}{}
}

// leave ends use.
func (id *ID) leave() {
	if d := id.dev; d != nil {
		id.dev = nil
		delete(d.ids, id)
		d.release()
	}
}

// RemoveDevice ends the use of a device that its owner is about to close or has
// closed. Ids on it get EventDeviceRemoval and can only be destroyed. Listeners on
// all devices continue without it. When RemoveDevice returns no id uses the device.
func (m *Manager) RemoveDevice(dev *adapter.Device) {
	m.lock()
	defer m.unlock()
	d := m.devices[dev]
	if d == nil {
		return
	}
	d.uses++ // keeps the device until the end of this function
	for _, id := range m.sorted(m.wildcards) {
		for i := len(id.listens) - 1; i >= 0; i-- {
			if id.listens[i].dev == d {
				id.unlistenOn(i)
			}
		}
	}
	for _, id := range m.sorted(d.ids) {
		waiting := id.waiting
		id.release()
		id.state = cmid.DeviceRemoval
		// As with all events, the program must know the id as its own first.
		if !waiting {
			id.push(Event{Type: cmid.EventDeviceRemoval})
		}
	}
	d.release()
}
