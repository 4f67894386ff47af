package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link"
	"softrdma/internal/link/tcp"
	"softrdma/internal/link/udp"
	"softrdma/internal/reason"
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
		return c, IWARP, reason.BadArgument(0, uint64(c.Addr.Port()), "expected an address without a port, found %v: an iWARP device has one per connection", c.Addr)
	}
	c.Addr = netip.AddrPortFrom(c.Addr.Addr(), 0)
	c.Why = append(c.Why, "It speaks iWARP, over TCP.")
	return c, IWARP, nil
}

// openLinks opens what carries the packets of the device's lanes, or its streams.
func (s *Stack) openLinks(p Protocol, c *host.Choice, cfg *Config) ([]frame.Network, link.Streams, error) {
	lanes := max(cfg.Lanes, 1)
	if lanes > adapter.MaxLanes {
		return nil, nil, reason.BadArgument(adapter.MaxLanes, uint64(lanes), "lanes: expected at most %d, found %d", adapter.MaxLanes, lanes)
	}
	if p == IWARP {
		if lanes > 1 {
			return nil, nil, reason.NotSupported("lanes: expected 1 of an iWARP device, found %d", lanes)
		}
		l, err := s.openStreams(c, cfg)
		return nil, l, err
	}
	if cfg.TLS != nil || cfg.NoCRC || cfg.Markers {
		return nil, nil, reason.NotSupported("TLS, NoCRC and Markers: expected an iWARP device, %s%v", iwarpPrefix, c.Addr.Addr())
	}
	links, err := udp.OpenLanes(c.Addr, udp.Config{
		ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, Interface: c.Interface.Index,
	}, lanes)
	return rocev2.Networks(links), nil, err
}

func (s *Stack) openStreams(c *host.Choice, cfg *Config) (link.Streams, error) {
	// The system would allow it, but one address is one device.
	if s.reg.Find(c.Addr) != nil {
		return nil, fmt.Errorf("address %v is in use by another iWARP device of this process: %w", c.Addr.Addr(), syscall.EADDRINUSE)
	}
	t := tcp.Config{ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, PeerTimeout: cfg.PeerTimeout, Refused: cfg.refused()}
	if cfg.TLS != nil {
		return tcp.OpenTLS(c.Addr.Addr(), t, cfg.TLS)
	}
	return tcp.Open(c.Addr.Addr(), t)
}

// nodeGUID makes the GUIDs of an address's iWARP and RoCE devices differ.
func (p Protocol) nodeGUID(g GUID) GUID {
	if p == IWARP {
		g ^= 1 << 24
	}
	return g
}

// Protocol is what the device speaks.
func (d *Device) Protocol() Protocol { return d.protocol }

// interfaceGID is the one GID of an iWARP port: the interface's MAC address, as
// Linux's siw shows it. Nothing is sent to it.
func interfaceGID(mac net.HardwareAddr) (g GID) {
	copy(g[:], mac)
	return g
}

// refused is TLSRefused, with the name of the reason before what is behind it.
func (cfg *Config) refused() func(netip.AddrPort, error) {
	tell := cfg.TLSRefused
	if tell == nil {
		return nil
	}
	return func(peer netip.AddrPort, err error) {
		if f := (*link.Failure)(nil); errors.As(err, &f) {
			err = fmt.Errorf("%v: %w", f.Detail.Reason, err)
		}
		tell(peer, err)
	}
}
