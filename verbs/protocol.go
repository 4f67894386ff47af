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
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link"
	"softrdma/internal/link/sealed"
	"softrdma/internal/link/tcp"
	"softrdma/internal/link/udp"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
)

// A Protocol is the RDMA protocol of a device.
type Protocol uint8

// The protocols.
const (
	RoCE       Protocol = iota // RoCE v2, over UDP
	IWARP                      // iWARP, over TCP
	RoCEv1                     // RoCE v1, over Ethernet
	InfiniBand                 // a port of an InfiniBand fabric in software
)

// String returns the name of the protocol.
func (p Protocol) String() string {
	switch p {
	case RoCE:
		return "RoCE v2"
	case IWARP:
		return "iWARP"
	case RoCEv1:
		return "RoCE v1"
	case InfiniBand:
		return "InfiniBand"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// transport returns the transport that ibv_devinfo shows for a device.
func (p Protocol) transport() string {
	if p == IWARP {
		return "iWARP"
	}
	return "InfiniBand"
}

// The prefixes of the names of devices with other protocols than RoCE v2.
const (
	iwarpPrefix  = "iwarp:"
	rocev1Prefix = "roce1:"
)

// protocolOf splits the protocol's prefix from a device's name.
func protocolOf(name string) (Protocol, string) {
	if rest, ok := strings.CutPrefix(name, iwarpPrefix); ok {
		return IWARP, rest
	}
	if rest, ok := strings.CutPrefix(name, rocev1Prefix); ok {
		return RoCEv1, rest
	}
	return RoCE, name
}

// prefix returns what begins the names of devices of a protocol.
func (p Protocol) prefix() string {
	switch p {
	case IWARP:
		return iwarpPrefix
	case RoCEv1:
		return rocev1Prefix
	}
	return ""
}

// choose resolves the name of an interface or address.
func choose(p Protocol, name string) (host.Choice, error) {
	resolve := host.Resolve
	switch {
	case name == "":
		resolve = func(string) (host.Choice, error) { return host.DefaultDevice() }
	case p == RoCEv1:
		resolve = host.ResolveEthernet
	}
	c, err := resolve(name)
	if err != nil || p == RoCE {
		return c, err
	}
	if c.Addr.Port() != Port {
		return c, reason.BadArgument(0, uint64(c.Addr.Port()), "expected an address without a port, found %v: only RoCE v2 has one UDP port for a device", c.Addr)
	}
	why := "It speaks iWARP, over TCP."
	if p == RoCEv1 {
		why = "It speaks RoCE v1, over Ethernet frames."
	}
	c.Addr = netip.AddrPortFrom(c.Addr.Addr(), p.number())
	c.Why = append(c.Why, why)
	return c, nil
}

// number returns what the addresses of devices of a protocol have as their port, if no other one is named.
func (p Protocol) number() uint16 {
	switch p {
	case RoCE:
		return Port
	case RoCEv1:
		return rocev1.EtherType
	}
	return 0
}

// links holds the networks of a device's lanes, or its streams.
type links struct {
	networks []frame.Network
	share    steering.Share // of the address; zero for the whole address
	slots    slots          // for other programs; nil if the address is not shared
	streams  link.Streams
	sealed   *sealed.Device // the link of networks; nil if it does not encrypt
}

// openLinks opens the links of a device.
func (s *Stack) openLinks(p Protocol, c *host.Choice, cfg *Config) (l links, err error) {
	lanes := max(cfg.Lanes, 1)
	if lanes > adapter.MaxLanes {
		return l, reason.BadArgument(adapter.MaxLanes, uint64(lanes), "lanes: expected at most %d, found %d", adapter.MaxLanes, lanes)
	}
	if s.reg().Networks != nil && p == RoCE { // a simulated network
		if cfg.TLS != nil {
			return l, reason.NotSupported("TLS: expected a network, found a simulated one")
		}
		l.networks, err = s.reg().Networks(c.Addr)
		return l, err
	}
	if p == IWARP {
		if lanes > 1 {
			return l, reason.NotSupported("lanes: expected 1 of an iWARP device, found %d", lanes)
		}
		if l.streams, err = s.openStreams(c, cfg); err == nil && cfg.Shared {
			l.share, l.slots = steering.Share{Lanes: 1, Of: sharedLanes}, newLaneSlots()
		}
		return l, err
	}
	if cfg.NoCRC || cfg.Markers || cfg.TCPCongestion != "" {
		return l, reason.NotSupported("NoCRC, Markers and TCPCongestion: expected an iWARP device, %s%v", iwarpPrefix, c.Addr.Addr())
	}
	if p == RoCEv1 {
		if cfg.TLS != nil {
			return l, reason.NotSupported("TLS: expected a device of RoCE v2 or iWARP, found %v", p)
		}
		return s.openRoCEv1(c, cfg, lanes)
	}
	if c.Addr.Port() == rocev1.EtherType {
		return l, reason.BadArgument(0, uint64(c.Addr.Port()), "UDP port %d: expected another one: this number stands for RoCE v1", c.Addr.Port())
	}
	if cfg.TLS != nil {
		return openSealed(c, cfg)
	}
	if !cfg.Shared {
		opened, err := udp.OpenLanes(c.Addr, udpConfig(c, cfg), lanes)
		return links{networks: rocev2.Networks(opened)}, err
	}
	opened, slots, err := udp.OpenSlots(c.Addr, udpConfig(c, cfg), lanes, sharedLanes)
	if err != nil {
		return l, err
	}
	return links{networks: rocev2.Networks(opened), share: steering.Share{Lanes: lanes, Of: sharedLanes}, slots: slots}, nil
}

func udpConfig(c *host.Choice, cfg *Config) udp.Config {
	return udp.Config{ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, Interface: c.Interface.Index}
}

func (s *Stack) openStreams(c *host.Choice, cfg *Config) (link.Streams, error) {
	// The system would allow a second device, but an address has only one.
	if s.reg().Find(c.Addr) != nil {
		return nil, fmt.Errorf("address %v is in use by another iWARP device of this process: %w", c.Addr.Addr(), syscall.EADDRINUSE)
	}
	t := tcp.Config{ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, PeerTimeout: cfg.PeerTimeout, Congestion: cfg.TCPCongestion, Refused: cfg.refused()}
	if cfg.TLS != nil {
		return tcp.OpenTLS(c.Addr.Addr(), t, cfg.TLS)
	}
	return tcp.Open(c.Addr.Addr(), t)
}

// nodeGUID returns a GUID that differs between devices of different protocols on one address.
// A port of a fabric has the GUID of its node.
func (p Protocol) nodeGUID(g GUID) GUID {
	if p == InfiniBand {
		return g
	}
	return g ^ GUID(p)<<24
}

// Protocol returns the device's protocol.
func (d *Device) Protocol() Protocol { return d.protocol }

// interfaceGID returns the only GID of an iWARP port: the interface's MAC address, as in
// Linux's siw. Peers do not send to it.
func interfaceGID(mac net.HardwareAddr) (g GID) {
	copy(g[:], mac)
	return g
}

// refused returns TLSRefused with the name of the reason added to the error.
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
