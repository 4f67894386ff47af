package main

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
	protocolRoCE  = "roce"
	protocolIWARP = "iwarp"
)

// iwarpPrefix is in front of the names of iWARP devices, see verbs.Open.
const iwarpPrefix = protocolIWARP + ":"

// daemonPrefix is in front of the names of daemons' devices, see verbs.Open.
const daemonPrefix = "daemon:"

// A protocolFlag is what --protocol says that a command's devices speak. It is
// empty where nothing was said, which is RoCE v2 unless a device's name says
// otherwise.
type protocolFlag string

// flag declares the flag.
func (p *protocolFlag) flag(f *pflag.FlagSet, note string) {
	f.Var(p, "protocol", "what the devices speak: roce, or iwarp over TCP (default that of the device's name: iwarp:DEVICE, else roce)"+note)
}

func (p *protocolFlag) String() string { return string(*p) }

// Type is how help names a value.
func (p *protocolFlag) Type() string { return "PROTOCOL" }

// Set reads the flag.
func (p *protocolFlag) Set(s string) error {
	if s != protocolRoCE && s != protocolIWARP {
		return fmt.Errorf("expected %s or %s, found %q", protocolRoCE, protocolIWARP, s)
	}
	*p = protocolFlag(s)
	return nil
}

// join makes the name of a device and the flag agree. A name that is none, or
// an unspecified address, is left for the connection manager to choose by.
func (p *protocolFlag) join(name *string) error {
	rest, iwarp := strings.CutPrefix(*name, iwarpPrefix)
	daemons := strings.HasPrefix(*name, daemonPrefix)
	if daemons {
		iwarp = strings.HasPrefix((*name)[strings.LastIndexByte(*name, '/')+1:], "siw") // as the daemon calls them
	}
	if iwarp && *p == protocolRoCE {
		return usageErrorf("--protocol %s: found an iWARP device, %s", *p, *name)
	}
	if iwarp {
		*p = protocolIWARP
	}
	if a, err := netip.ParseAddr(rest); err == nil && a.IsUnspecified() {
		*name = rest
	} else if *p == protocolIWARP && !iwarp && !daemons && *name != "" {
		*name = iwarpPrefix + *name
	}
	return nil
}

// iwarp tells whether the devices speak iWARP.
func (p protocolFlag) iwarp() bool { return p == protocolIWARP }

// protocol is the flag's value for the library.
func (p protocolFlag) protocol() verbs.Protocol {
	if p.iwarp() {
		return verbs.IWARP
	}
	return verbs.RoCE
}

// start is the command that should wait at the other end.
func (p protocolFlag) start(command string) string {
	if p.iwarp() {
		return command + " --protocol " + protocolIWARP
	}
	return command
}

// deviceName names an open device as -d takes it.
func deviceName(dev *verbs.Device) string {
	if dev.Protocol() == verbs.IWARP {
		return iwarpPrefix + dev.Addr().Addr().String()
	}
	return dev.Addr().String()
}

// device is join where no connection manager will choose: it gives the name that
// verbs.Open takes. Other names may go with another protocol.
func (p protocolFlag) device(name string) (string, error) {
	if err := p.join(&name); err != nil {
		return "", err
	}
	if p.iwarp() && name == "" {
		name = iwarpPrefix
	}
	return name, nil
}

// name is a peer's device, which it told by address and port, as -d takes it.
func (p protocolFlag) name(device string) string {
	if at, err := netip.ParseAddrPort(device); err == nil && p.iwarp() {
		return iwarpPrefix + at.Addr().String()
	}
	return device
}

// opens is what firewalls have to let pass to a server at host:port.
func (p protocolFlag) opens(at string) string {
	if !p.iwarp() {
		return fmt.Sprintf("UDP port %d", verbs.Port)
	}
	if _, port, err := net.SplitHostPort(at); err == nil {
		return "TCP port " + port
	}
	return "the TCP port"
}
