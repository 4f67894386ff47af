package verbs

import (
	"crypto/tls"
	"net/netip"
	"sync"

	"softrdma/internal/adapter"
	"softrdma/internal/bridge"
	"softrdma/internal/driver"
)

func init() {
	bridge.Device = func(dev any) *adapter.Device { return dev.(*Device).local }
	bridge.Driver = func(dev any) driver.Device { return dev.(*Device).drv }
	bridge.Security = func(dev any) *tls.Config { return dev.(*Device).security }
	bridge.Opened = func(local netip.AddrPort) any {
		if d := opened.find(local); d != nil {
			return d
		}
		return nil
	}
}

// opened are the open devices of this process by address, for packages that
// stand beside this one: one address is one device.
var opened deviceTable

type deviceTable struct {
	sync.Mutex
	by map[netip.AddrPort]*Device
}

func (t *deviceTable) find(local netip.AddrPort) *Device {
	t.Lock()
	defer t.Unlock()
	return t.by[local]
}

func (t *deviceTable) add(d *Device) {
	t.Lock()
	defer t.Unlock()
	if t.by == nil {
		t.by = make(map[netip.AddrPort]*Device)
	}
	t.by[d.Addr()] = d
}

// remove forgets a device that is to be closed, and tells those who use it.
func (t *deviceTable) remove(d *Device) {
	t.Lock()
	here := t.by[d.Addr()] == d
	if here {
		delete(t.by, d.Addr())
	}
	t.Unlock()
	if here && bridge.Closing != nil {
		bridge.Closing(d)
	}
}

// vacate makes others in this process that no longer need the address give it
// up.
func vacate(local netip.AddrPort) {
	if bridge.Vacate != nil {
		bridge.Vacate(local)
	}
}
