package cli

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"softrdma/verbs"
)

// The protocols of devices by their names in flags.
const (
	ProtocolRoCE  = "roce"
	ProtocolIWARP = "iwarp"
)

// IWARPPrefix is in front of the names of iWARP devices, see verbs.Open.
const IWARPPrefix = ProtocolIWARP + ":"

// DaemonPrefix is in front of the names of daemons' devices, see verbs.Open.
const DaemonPrefix = "daemon:"

// A Protocol is what --protocol says that a command's devices speak. It is
// empty where nothing was said, which is RoCE v2 unless a device's name says
// otherwise.
type Protocol string

// AddFlag declares the flag.
func (p *Protocol) AddFlag(f *pflag.FlagSet, note string) {
	f.Var(p, "protocol", "what the devices speak: roce, or iwarp over TCP (default that of the device's name: iwarp:DEVICE, else roce)"+note)
}

func (p *Protocol) String() string { return string(*p) }

// Type is how help names a value.
func (p *Protocol) Type() string { return "PROTOCOL" }

// Set reads the flag.
func (p *Protocol) Set(s string) error {
	if s != ProtocolRoCE && s != ProtocolIWARP {
		return fmt.Errorf("expected %s or %s, found %q", ProtocolRoCE, ProtocolIWARP, s)
	}
	*p = Protocol(s)
	return nil
}

// Reconcile makes the name of a device and the flag agree. A name that is none, or
// an unspecified address, is left for the connection manager to choose by.
func (p *Protocol) Reconcile(name *string) error {
	rest, iwarp := strings.CutPrefix(*name, IWARPPrefix)
	daemons := strings.HasPrefix(*name, DaemonPrefix)
	if daemons {
		iwarp = strings.HasPrefix((*name)[strings.LastIndexByte(*name, '/')+1:], "siw") // as the daemon calls them
	}
	if iwarp && *p == ProtocolRoCE {
		return UsageErrorf("--protocol %s: found an iWARP device, %s", *p, *name)
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

// IWARP tells whether the devices speak iWARP.
func (p Protocol) IWARP() bool { return p == ProtocolIWARP }

// Verbs is the flag's value for the library.
func (p Protocol) Verbs() verbs.Protocol {
	if p.IWARP() {
		return verbs.IWARP
	}
	return verbs.RoCE
}

// Command is the command that should wait at the other end.
func (p Protocol) Command(command string) string {
	if p.IWARP() {
		return command + " --protocol " + ProtocolIWARP
	}
	return command
}

// DeviceName names an open device as -d takes it.
func DeviceName(dev *verbs.Device) string {
	if dev.Protocol() == verbs.IWARP {
		return IWARPPrefix + dev.Addr().Addr().String()
	}
	return dev.Addr().String()
}

// OpenName is join where no connection manager will choose: it gives the name that
// verbs.Open takes. Other names may go with another protocol.
func (p Protocol) OpenName(name string) (string, error) {
	if err := p.Reconcile(&name); err != nil {
		return "", err
	}
	if p.IWARP() && name == "" {
		name = IWARPPrefix
	}
	return name, nil
}

// PeerName is a peer's device, which it told by address and port, as -d takes it.
func (p Protocol) PeerName(device string) string {
	if at, err := netip.ParseAddrPort(device); err == nil && p.IWARP() {
		return IWARPPrefix + at.Addr().String()
	}
	return device
}

// firewallPort is what firewalls have to let pass to a server at host:port.
func (p Protocol) firewallPort(at string) string {
	if !p.IWARP() {
		return fmt.Sprintf("UDP port %d", verbs.Port)
	}
	if _, port, err := net.SplitHostPort(at); err == nil {
		return "TCP port " + port
	}
	return "the TCP port"
}
