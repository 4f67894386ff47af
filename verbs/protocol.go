package verbs

import (
	"fmt"
	"net/netip"
	"strings"

	"softrdma/internal/host"
	"softrdma/internal/link"
	"softrdma/internal/link/tcp"
	"softrdma/internal/link/udp"
)

// A Protocol is what a device speaks.
type Protocol uint8

// The protocols.
const (
	RoCE  Protocol = iota // RoCE v2, over UDP
	IWARP                 // iWARP, over TCP
)

// String names it.
func (p Protocol) String() string {
	switch p {
	case RoCE:
		return "RoCE v2"
	case IWARP:
		return "iWARP"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// transport is what ibv_devinfo calls a device's transport.
func (p Protocol) transport() string {
	if p == IWARP {
		return "iWARP"
	}
	return "InfiniBand"
}

// iwarpPrefix stands in front of the name of an iWARP device.
const iwarpPrefix = "iwarp:"

// choose finds what a name means.
func choose(name string) (host.Choice, Protocol, error) {
	name, iwarp := strings.CutPrefix(name, iwarpPrefix)
	resolve := host.Resolve
	if name == "" {
		resolve = func(string) (host.Choice, error) { return host.DefaultDevice() }
	}
	c, err := resolve(name)
	if err != nil || !iwarp {
		return c, RoCE, err
	}
	if c.Addr.Port() != Port {
		return c, IWARP, fmt.Errorf("expected an address without a port, found %v: an iWARP device has one per connection", c.Addr)
	}
	c.Addr = netip.AddrPortFrom(c.Addr.Addr(), 0)
	c.Why = append(c.Why, "It speaks iWARP, over TCP.")
	return c, IWARP, nil
}

// openLink opens what carries the device's packets or streams.
func openLink(p Protocol, c *host.Choice, cfg *Config) (link.Link, error) {
	if p == IWARP {
		// The system would allow it, but one address is one device.
		if opened.find(c.Addr) != nil {
			return nil, fmt.Errorf("address %v already in use by another iWARP device of this process", c.Addr.Addr())
		}
		return tcp.Open(c.Addr.Addr(), tcp.Config{ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer})
	}
	return udp.Open(c.Addr, udp.Config{
		ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, Interface: c.Interface.Index,
	})
}

// Protocol is what the device speaks.
func (d *Device) Protocol() Protocol { return d.protocol }

// interfaceGID is the one GID of an iWARP port: the interface's MAC address, as
// Linux's siw shows it. Nothing is sent to it.
func interfaceGID(i *host.Interface) (g GID) {
	copy(g[:], i.MAC)
	return g
}
