package cli

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"softrdma/verbs"
)

// Values of --protocol.
const (
	ProtocolRoCE   = "roce" // RoCE v2
	ProtocolIWARP  = "iwarp"
	ProtocolRoCEv1 = "roce1"

	protocolInfiniBand = "ib" // not a value of the flag: the device name selects the fabric
)

// The prefixes of the names of devices with other protocols than RoCE v2, see verbs.Open.
const (
	iwarpPrefix  = ProtocolIWARP + ":"
	RoCEv1Prefix = ProtocolRoCEv1 + ":"

	InfiniBandPrefix = protocolInfiniBand + ":" // a port of a fabric: ib:FABRIC/NODE:PORT
)

// ethernetPrefix begins the names of hosts of Ethernet fabrics, behind that of the protocol.
const ethernetPrefix = "eth:"

// OnFabric reports whether a device name is that of a port of a fabric.
func OnFabric(name string) bool {
	prefix, rest := SplitProtocol(name)
	return prefix == InfiniBandPrefix || strings.HasPrefix(rest, ethernetPrefix)
}

// SplitProtocol splits a device name into the prefix of its protocol, "" for RoCE v2, and
// the rest.
func SplitProtocol(name string) (prefix, rest string) {
	for _, prefix := range []string{iwarpPrefix, RoCEv1Prefix, InfiniBandPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return prefix, rest
		}
	}
	return "", name
}

// SharedPrefix begins the names of devices on addresses that a daemon shares, see verbs.Open.
const SharedPrefix = "shared:"

// A Protocol is the value of --protocol. Empty means that the device name decides, RoCE
// v2 by default.
type Protocol string

// AddFlag adds --protocol to a command. note is appended to its description.
func (p *Protocol) AddFlag(f *pflag.FlagSet, note string) {
	f.Var(p, "protocol", "protocol of the devices: roce (RoCE v2), roce1 (RoCE v1, over Ethernet, needs CAP_NET_RAW) or iwarp (over TCP); default roce, or that of a device named roce1:DEVICE or iwarp:DEVICE"+note)
}

// String returns the value of the flag.
func (p *Protocol) String() string { return string(*p) }

// Type returns the placeholder of the value in help texts.
func (p *Protocol) Type() string { return "PROTOCOL" }

// Set parses the flag.
func (p *Protocol) Set(s string) error {
	if s != ProtocolRoCE && s != ProtocolIWARP && s != ProtocolRoCEv1 {
		return fmt.Errorf("expected %s, %s or %s, found %q", ProtocolRoCE, ProtocolRoCEv1, ProtocolIWARP, s)
	}
	*p = Protocol(s)
	return nil
}

// Reconcile makes a device name and the flag agree: either may choose the protocol. An
// empty name and an unspecified address stay as they are, because the connection manager
// chooses the device.
func (p *Protocol) Reconcile(name *string) error {
	prefix, rest := SplitProtocol(*name)
	named := Protocol(strings.TrimSuffix(prefix, ":"))
	if named != "" && *p != "" && *p != named {
		return UsageErrorf("--protocol %s: %s names %s", *p, *name, named.device())
	}
	if named != "" {
		*p = named
	}
	if a, err := netip.ParseAddr(rest); err == nil && a.IsUnspecified() {
		*name = rest
	} else if named == "" && *name != "" {
		*name = p.prefix() + *name
	}
	return nil
}

// device describes a device of the protocol.
func (p Protocol) device() string {
	switch p {
	case ProtocolIWARP:
		return "an iWARP device"
	case ProtocolRoCEv1:
		return "a RoCE v1 device"
	case protocolInfiniBand:
		return "a port of an InfiniBand fabric"
	}
	return "a RoCE v2 device"
}

// prefix returns the prefix of the names of the protocol's devices.
func (p Protocol) prefix() string {
	if p == "" || p == ProtocolRoCE {
		return ""
	}
	return string(p) + ":"
}

// IWARP reports whether the protocol is iWARP.
func (p Protocol) IWARP() bool { return p == ProtocolIWARP }

// Verbs returns the protocol as package verbs names it.
func (p Protocol) Verbs() verbs.Protocol {
	switch p {
	case ProtocolIWARP:
		return verbs.IWARP
	case ProtocolRoCEv1:
		return verbs.RoCEv1
	case protocolInfiniBand:
		return verbs.InfiniBand
	}
	return verbs.RoCE
}

// ProtocolOf returns the protocol of an open device.
func ProtocolOf(dev *verbs.Device) Protocol {
	switch dev.Protocol() {
	case verbs.IWARP:
		return ProtocolIWARP
	case verbs.RoCEv1:
		return ProtocolRoCEv1
	case verbs.InfiniBand:
		return protocolInfiniBand
	}
	return ProtocolRoCE
}

// Command returns the command to start at the other end, with --protocol if it is
// needed there.
func (p Protocol) Command(command string) string {
	if p.prefix() != "" && p != protocolInfiniBand { // the other end's -d selects it
		return command + " --protocol " + string(p)
	}
	return command
}

// DeviceName returns the name of an open device for -d.
func DeviceName(dev *verbs.Device) string {
	p := ProtocolOf(dev)
	fabric, _, onFabric := strings.Cut(dev.Name(), "/") // FABRIC/NODE; names of interfaces have none
	switch {
	case p == protocolInfiniBand:
		return InfiniBandPrefix + dev.Name()
	case onFabric && dev.Addr().Addr().Is6():
		return p.prefix() + ethernetPrefix + fabric + "/" + dev.Addr().Addr().String()
	case onFabric:
		return p.prefix() + ethernetPrefix + dev.Name()
	case p.prefix() != "":
		return p.prefix() + dev.Addr().Addr().String()
	}
	return dev.Addr().String()
}

// OpenName returns the name to pass to verbs.Open for a command that does not let the
// connection manager choose a device.
func (p Protocol) OpenName(name string) (string, error) {
	if err := p.Reconcile(&name); err != nil {
		return "", err
	}
	if name == "" {
		name = p.prefix()
	}
	return name, nil
}

// PeerName returns the name of a peer's device for -d. The peer sent it as address and port.
func (p Protocol) PeerName(device string) string {
	if at, err := netip.ParseAddrPort(device); err == nil && p.prefix() != "" {
		return p.prefix() + at.Addr().String()
	}
	return device
}

// firewallPort names the port that firewalls must let pass to a server at host:port.
func (p Protocol) firewallPort(at string) string {
	if p == ProtocolRoCEv1 {
		return "Ethernet frames of type 0x8915"
	}
	if !p.IWARP() {
		return fmt.Sprintf("UDP port %d", verbs.Port)
	}
	if _, port, err := net.SplitHostPort(at); err == nil {
		return "TCP port " + port
	}
	return "the TCP port"
}
