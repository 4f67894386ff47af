package verbs

import (
	"fmt"

	"softrdma/internal/host"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

// watch makes the device raise events of its port. If the system does not report changes, the
// device works without these events and Explain says so.
func (d *Device) watch() {
	w, err := host.Watch(d.choice, d.portChanged)
	if err != nil {
		d.choice.Why = append(d.choice.Why, fmt.Sprintf("There are no port events: %v.", err))
		return
	}
	d.watcher = w
}

func (d *Device) unwatch() {
	if d.watcher != nil {
		d.watcher.Close()
	}
}

// portChanged raises the port's events (IBTA 11.6.3) and, as Linux does, an event of the GID
// table, whose entry is the device's address.
func (d *Device) portChanged(old, now host.PortState) {
	switch {
	case old.Up && !now.Up:
		d.local.Raise(machine.EventPortErr, nil, reason.Detail{})
	case !old.Up && now.Up:
		d.local.Raise(machine.EventPortActive, nil, reason.Detail{})
	}
	if old.Addr != now.Addr {
		d.local.Raise(machine.EventGIDChange, nil, reason.Detail{})
	}
}

// portState returns the current state of the port.
func (d *Device) portState() host.PortState {
	if d.local.PortDown() {
		return host.PortState{Addr: true}
	}
	if d.watcher != nil {
		if s, ok := d.watcher.State(); ok {
			return s
		}
	}
	s, err := host.State(d.choice)
	if err != nil { // fall back to the state when the device was opened
		return host.PortState{Up: d.choice.Interface.Up, Addr: true}
	}
	return s
}
