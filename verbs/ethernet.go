package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/netstack"
	"softrdma/internal/link/tcp"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/samehost"
	"softrdma/internal/steering"
	"softrdma/internal/wire/mad/smp"
)

// ethernetPrefix is the prefix of the names of ports of an Ethernet fabric.
const ethernetPrefix = "eth:"

// services are what devices have of a port of an Ethernet fabric.
var services = map[Protocol]hostport.Service{RoCE: hostport.Datagrams, RoCEv1: hostport.RoCEFrames, IWARP: hostport.Segments}

// openEthernet opens a device on a port of an Ethernet fabric. Its packets go through the fabric's
// switches, also to devices of this process and host.
func (s *Stack) openEthernet(ctx context.Context, p Protocol, name string, cfg *Config) (*Device, error) {
	var o portOpening
	if cfg.Shared && p != IWARP { // the TCP of an address is in one process
		x := newLaneSlots()
		o.share, o.slots = &attach.Share{Key: x.key[:], Of: sharedLanes}, x
	}
	d, err := s.attachEthernet(ctx, p, name, cfg, &o)
	if err != nil {
		return nil, openNamed(p.prefix()+ethernetPrefix, name, err)
	}
	return d, nil
}

func (s *Stack) attachEthernet(ctx context.Context, p Protocol, name string, cfg *Config, o *portOpening) (*Device, error) {
	if err := cfg.refuseEthernet(p); err != nil {
		return nil, err
	}
	port, err := attach.OpenService(ctx, name, services[p], o.share)
	if err != nil {
		return nil, err
	}
	if i := port.Info(); i.Ethernet == nil || len(i.Addrs) == 0 {
		return nil, errors.Join(reason.Detail{Reason: reason.FabricMessage, Expected: 1, Found: uint64(len(i.Addrs))}.Err(), port.Close())
	}
	c := *cfg
	c.SameHost, c.NoLoopback = SameHostOff, true
	x := opening{choice: ethernetChoice(p, port.Info()), protocol: p, port: port, mirror: o.mirror, record: o.record}
	x.release = func() error {
		err := port.Close()
		if o.release != nil {
			err = errors.Join(err, o.release())
		}
		return err
	}
	x.links.slots = o.slots
	if o.share != nil {
		x.links.share = steering.Share{First: o.share.Lane, Lanes: 1, Of: o.share.Of}
	}
	var d *Device
	if err = x.check(&c); err == nil {
		err = s.linkEthernet(&x, &c)
	}
	if err == nil {
		d, err = s.start(&x, &c)
	}
	if err != nil {
		return nil, errors.Join(err, x.release())
	}
	return d, nil
}

// linkEthernet makes the network of a device at its port, or its streams.
func (s *Stack) linkEthernet(x *opening, cfg *Config) (err error) {
	at, l := x.choice.Addr, x.port.Link()
	switch x.protocol {
	case RoCEv1:
		share := x.links.share
		if share.Of == 0 {
			share = steering.Whole(1)
		}
		frames := fabric.NewRoCEv1(l, x.port.Info().Ethernet.MAC, x.choice.Interface.Name)
		x.links.networks, err = rocev1.Networks(at.Addr(), share, []*fabric.RoCEv1{frames})
	case IWARP:
		return s.linkStack(x, cfg)
	default:
		x.links.networks = rocev2.Networks([]*fabric.Datagrams{fabric.NewDatagrams(l, at)})
	}
	return err
}

// linkStack makes the streams of a device at its port, over a TCP stack of this process.
func (s *Stack) linkStack(x *opening, cfg *Config) error {
	if other := s.reg().Find(x.choice.Addr); other != nil {
		return fmt.Errorf("address %v is in use by another iWARP device of this process: %w", x.choice.Addr.Addr(), syscall.EADDRINUSE)
	}
	own, err := netstack.Open(x.port.Link(), x.choice.Addr.Addr(), x.choice.Interface.MTU)
	if err != nil {
		return err
	}
	x.port.HandleStackEnded(own.Probe)
	closePort := x.release
	x.release = func() error { return own.Close(closePort) }
	c := tcp.Config{ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, PeerTimeout: cfg.PeerTimeout, Refused: cfg.refused()}
	x.links.streams, err = tcp.OpenNetwork(own, x.choice.Addr.Addr(), c, cfg.TLS)
	return err
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
func (cfg *Config) refuseEthernet(p Protocol) error {
	switch {
	case cfg.Lanes > 1:
		return reason.NotSupported("lanes: expected 1 of a port of a fabric, found %d", cfg.Lanes)
	case cfg.TLS != nil && p != IWARP:
		return reason.NotSupported("TLS: expected none at a port of an Ethernet fabric")
	case p != IWARP && (cfg.NoCRC || cfg.Markers) || cfg.TCPCongestion != "":
		return reason.NotSupported("NoCRC, Markers and TCPCongestion: expected an iWARP device")
	}
	mode, _, err := cfg.sameHost()
	if err == nil && mode == samehost.Require { // all packets of a port go through the fabric
		err = reason.Detail{Reason: reason.HostFabric, Expected: 1}.Err()
	}
	return err
}

// ethernetChoice describes the port as an interface.
func ethernetChoice(p Protocol, i *attach.Info) host.Choice {
	e := i.Ethernet
	return host.Choice{
		Addr: netip.AddrPortFrom(i.Addrs[0], p.number()),
		Interface: host.Interface{
			Name: i.Fabric + "/" + i.Node, MAC: e.MAC[:], MTU: e.MTU, Up: ethernetState(i).Up, SpeedMbps: e.SpeedMbps, Addrs: i.Addrs,
		},
		Why: []string{fmt.Sprintf("It is host %s of the Ethernet fabric %s, whose packets all go through the fabric.", i.Node, i.Fabric)},
	}
}
