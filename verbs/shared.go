package verbs

import (
	"strings"

	"softrdma/internal/reason"
)

// sharedPrefix begins the name of a device on an address that a daemon shares.
const sharedPrefix = "shared:"

// sharedLanes is the number of lanes of a shared address: those of the device that shares it,
// and one for each program. It is a variable for tests.
var sharedLanes = 256

// refuseShared returns an error that names the settings that the owner of a shared address has
// chosen.
func (c *Config) refuseShared() error {
	var found []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Lanes", c.Lanes > 1}, {"Shared", c.Shared}, {"MTU", c.MTU != 0}, {"TLS", c.TLS != nil}, {"NoCRC", c.NoCRC}, {"Markers", c.Markers}, {"TCPCongestion", c.TCPCongestion != ""},
	} {
		if f.set {
			found = append(found, f.name)
		}
	}
	if len(found) > 0 {
		return reason.NotSupported("a device on a shared address has one lane and the MTU of the address, found %s", strings.Join(found, ", "))
	}
	return nil
}

// slots lend the lanes of a shared address to programs: udp.Slots, ethernetSlots, laneSlots.
type slots interface {
	Take() (lane int, fds []int, err error)
	Give(lane int)
	Key() [16]byte
	Close()
}

// deviceSlots lends the slots of a device's address.
type deviceSlots struct{ dev *Device }

func (s deviceSlots) Take() (lane int, fds []int, err error) { return s.dev.slots.Take() }

// Capture implements registry.Slots.
func (s deviceSlots) Capture() (path string, id [2]uint64, err error) {
	f, err := s.dev.sharedCapture()
	return f.Path, f.ID, err
}

func (s deviceSlots) Key() [16]byte { return s.dev.slots.Key() }

// Give takes a slot back, and removes its program's name from the directory of this host's
// devices.
func (s deviceSlots) Give(lane int) {
	if h := s.dev.sameHost.host; h != nil {
		h.RemoveSlot(lane, s.dev.local.Share().Of)
	}
	s.dev.slots.Give(lane)
}

// giveUp releases the device's part of a shared address. Its links are no longer used.
func (d *Device) giveUp() error {
	if d.slots != nil {
		d.slots.Close()
	}
	if d.release == nil {
		return nil
	}
	return d.release()
}
