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
	ProtocolRoCE  = "roce"
	ProtocolIWARP = "iwarp"
)

// IWARPPrefix begins the names of iWARP devices, see verbs.Open.
const IWARPPrefix = ProtocolIWARP + ":"

// DaemonPrefix begins the names of a daemon's devices, see verbs.Open.
const DaemonPrefix = "daemon:"

// A Protocol is the value of --protocol. Empty means that the device name decides, RoCE
// v2 by default.
type Protocol string

// AddFlag adds --protocol to a command. note is appended to its description.
func (p *Protocol) AddFlag(f *pflag.FlagSet, note string) {
	f.Var(p, "protocol", "protocol of the devices: roce, or iwarp (over TCP); default roce, or iwarp if the device is named iwarp:DEVICE"+note)
}

// String returns the value of the flag.
func (p *Protocol) String() string { return string(*p) }

// Type returns the placeholder of the value in help texts.
func (p *Protocol) Type() string { return "PROTOCOL" }

// Set parses the flag.
func (p *Protocol) Set(s string) error {
	if s != ProtocolRoCE && s != ProtocolIWARP {
		return fmt.Errorf("expected %s or %s, found %q", ProtocolRoCE, ProtocolIWARP, s)
	}
	*p = Protocol(s)
	return nil
}

// Reconcile makes a device name and the flag agree: either may choose iWARP. An empty
// name and an unspecified address stay as they are, because the connection manager
// chooses the device.
func (p *Protocol) Reconcile(name *string) error {
	rest, iwarp := strings.CutPrefix(*name, IWARPPrefix)
	daemons := strings.HasPrefix(*name, DaemonPrefix)
	if daemons {
		iwarp = strings.HasPrefix((*name)[strings.LastIndexByte(*name, '/')+1:], "siw") // a daemon's name of an iWARP device
	}
	if iwarp && *p == ProtocolRoCE {
		return UsageErrorf("--protocol %s: %s is an iWARP device", *p, *name)
	}
	if iwarp {
		*p = ProtocolIWARP
	}
	if a, err := netip.ParseAddr(rest); err == nil && a.IsUnspecified() {
		*name = rest
	} else if *p == ProtocolIWARP && !iwarp && !daemons && *name != "" {
		*name = IWARPPrefix + *name
	}
	return nil
}

// IWARP reports whether the protocol is iWARP.
func (p Protocol) IWARP() bool { return p == ProtocolIWARP }

// Verbs returns the protocol as package verbs names it.
func (p Protocol) Verbs() verbs.Protocol {
	if p.IWARP() {
		return verbs.IWARP
	}
	return verbs.RoCE
}

// Command returns the command to start at the other end, with --protocol if it is
// needed there.
func (p Protocol) Command(command string) string {
	if p.IWARP() {
		return command + " --protocol " + ProtocolIWARP
	}
	return command
}

// DeviceName returns the name of an open device as -d takes it.
func DeviceName(dev *verbs.Device) string {
	if dev.Protocol() == verbs.IWARP {
		return IWARPPrefix + dev.Addr().Addr().String()
	}
	return dev.Addr().String()
}

// OpenName returns the name to pass to verbs.Open for a command that does not let the
// connection manager choose a device.
func (p Protocol) OpenName(name string) (string, error) {
	if err := p.Reconcile(&name); err != nil {
		return "", err
	}
	if p.IWARP() && name == "" {
		name = IWARPPrefix
	}
	return name, nil
}

// PeerName returns the name of a peer's device as -d takes it. The peer sent it as
// address and port.
func (p Protocol) PeerName(device string) string {
	if at, err := netip.ParseAddrPort(device); err == nil && p.IWARP() {
		return IWARPPrefix + at.Addr().String()
	}
	return device
}

// firewallPort names the port that firewalls must let pass to a server at host:port.
func (p Protocol) firewallPort(at string) string {
	if !p.IWARP() {
		return fmt.Sprintf("UDP port %d", verbs.Port)
	}
	if _, port, err := net.SplitHostPort(at); err == nil {
		return "TCP port " + port
	}
	return "the TCP port"
}
