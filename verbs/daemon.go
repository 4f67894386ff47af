package verbs

import (
	"errors"
	"fmt"
	"strings"
)

// daemonPrefix stands in front of the name of a daemon's device.
const daemonPrefix = "daemon:"

// refuseDaemons names what the daemon has chosen when it opened the device.
func (c *Config) refuseDaemons() error {
	var found []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ReceiveBuffer", c.ReceiveBuffer != 0}, {"SendBuffer", c.SendBuffer != 0}, {"Window", c.Window != 0}, {"Lanes", c.Lanes > 1},
		{"Congestion", c.Congestion != ""}, {"Recovery", c.Recovery != ""}, {"TLS", c.TLS != nil}, {"PeerTimeout", c.PeerTimeout != 0},
		{"MTU", c.MTU != 0}, {"NoLoopback", c.NoLoopback},
	} {
		if f.set {
			found = append(found, f.name)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("of a daemon's device this process chooses Spin alone, found %s: %w", strings.Join(found, ", "), errors.ErrUnsupported)
	}
	return nil
}

// Daemon tells whether the device is a daemon's.
func (d *Device) Daemon() bool { return d.remote }
