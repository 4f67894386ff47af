package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link/fabric"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/samehost"
	"softrdma/internal/wire/mad/smp"
)

// ethernetPrefix is the prefix of the names of ports of an Ethernet fabric.
const ethernetPrefix = "eth:"

// openEthernet opens a RoCE v2 device on a port of an Ethernet fabric. Its packets go through the
// fabric's switches, also to devices of this process and host.
func (s *Stack) openEthernet(ctx context.Context, name string, cfg *Config) (*Device, error) {
	d, err := s.attachEthernet(ctx, name, cfg)
	if err != nil {
		return nil, openNamed(ethernetPrefix, name, err)
	}
	return d, nil
}

func (s *Stack) attachEthernet(ctx context.Context, name string, cfg *Config) (*Device, error) {
	if err := cfg.refuseEthernet(); err != nil {
		return nil, err
	}
	port, err := attach.OpenEthernet(ctx, name)
	if err != nil {
		return nil, err
	}
	if i := port.Info(); i.Ethernet == nil || len(i.Addrs) == 0 {
		return nil, errors.Join(reason.Detail{Reason: reason.FabricMessage, Expected: 1, Found: uint64(len(i.Addrs))}.Err(), port.Close())
	}
	c := *cfg
	c.SameHost, c.NoLoopback = SameHostOff, true
	o := opening{choice: ethernetChoice(port.Info()), protocol: RoCE, port: port, release: port.Close}
	if err := o.check(&c); err != nil {
		return nil, errors.Join(err, port.Close())
	}
	o.links.networks = rocev2.Networks([]*fabric.Datagrams{fabric.NewDatagrams(port.Link(), o.choice.Addr)})
	d, err := s.start(&o, &c)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return d, nil
}

// follow makes the state and the events of a device those of its port.
func (d *Device) follow(port *attach.Port) {
	d.state = func() host.PortState { return ethernetState(port.Info()) }
	port.Watch(func(_, _ *attach.Info, e attach.Event) {
		switch e {
		case attach.PortActive:
			d.local.Raise(machine.EventPortActive, nil, reason.Detail{})
		case attach.PortError:
			d.local.Raise(machine.EventPortErr, nil, reason.Detail{})
		}
	})
}

func ethernetState(i *attach.Info) host.PortState {
	return host.PortState{Up: i.PortInfo.State == smp.PortActive, Addr: true}
}

// refuseEthernet refuses settings that do not apply to a port of an Ethernet fabric.
func (cfg *Config) refuseEthernet() error {
	switch {
	case cfg.Lanes > 1:
		return reason.NotSupported("lanes: expected 1 of a port of a fabric, found %d", cfg.Lanes)
	case cfg.TLS != nil:
		return reason.NotSupported("TLS: expected none at a port of an Ethernet fabric")
	case cfg.NoCRC || cfg.Markers || cfg.TCPCongestion != "":
		return reason.NotSupported("NoCRC, Markers and TCPCongestion: expected an iWARP device")
	}
	mode, _, err := cfg.sameHost()
	if err == nil && mode == samehost.Require { // all packets of a port go through the fabric
		err = reason.Detail{Reason: reason.HostFabric, Expected: 1}.Err()
	}
	return err
}

// ethernetChoice describes the port as an interface.
func ethernetChoice(i *attach.Info) host.Choice {
	e := i.Ethernet
	return host.Choice{
		Addr: netip.AddrPortFrom(i.Addrs[0], Port),
		Interface: host.Interface{
			Name: i.Fabric + "/" + i.Node, MAC: e.MAC[:], MTU: e.MTU, Up: ethernetState(i).Up, SpeedMbps: e.SpeedMbps, Addrs: i.Addrs,
		},
		Why: []string{fmt.Sprintf("It is host %s of the Ethernet fabric %s, whose packets all go through the fabric.", i.Node, i.Fabric)},
	}
}
