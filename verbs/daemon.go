package verbs

import (
	"softrdma/internal/reason"
	"strings"
)

// daemonPrefix begins the name of a daemon's device.
const daemonPrefix = "daemon:"

// refuseDaemons returns an error that names the settings that the daemon chose when it opened
// the device.
func (c *Config) refuseDaemons() error {
	var found []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ReceiveBuffer", c.ReceiveBuffer != 0}, {"SendBuffer", c.SendBuffer != 0}, {"Window", c.Window != 0}, {"Lanes", c.Lanes > 1},
		{"Congestion", c.Congestion != ""}, {"Recovery", c.Recovery != ""}, {"TLS", c.TLS != nil}, {"PeerTimeout", c.PeerTimeout != 0},
		{"MTU", c.MTU != 0}, {"NoLoopback", c.NoLoopback},
		{"SameHost", c.SameHost != ""}, {"SameHostAllow", len(c.SameHostAllow) > 0},
	} {
		if f.set {
			found = append(found, f.name)
		}
	}
	if len(found) > 0 {
		return reason.NotSupported("for a daemon's device only Spin can be set, found %s", strings.Join(found, ", "))
	}
	return nil
}

// Daemon reports whether the device belongs to a daemon.
func (d *Device) Daemon() bool { return d.remote }
