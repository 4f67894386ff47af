package verbs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/frame/infiniband"
	"softrdma/internal/host"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/registry"
	"softrdma/internal/sa"
	"softrdma/internal/samehost"
	"softrdma/internal/steering"
	"softrdma/internal/trace"
)

// fabricPrefix is the prefix of the names of ports of a fabric.
const fabricPrefix = "ib:"

// openPort opens a device on a port of a fabric. Its packets go through the fabric's
// switches, also to devices of this process and host.
func (s *Stack) openPort(ctx context.Context, name string, cfg *Config) (*Device, error) {
	var o portOpening
	if cfg.Shared {
		p := newLaneSlots()
		o.share, o.slots = &attach.Share{Key: p.key[:], Of: sharedLanes}, p
	}
	d, err := s.attach(ctx, name, cfg, &o)
	if err != nil {
		return nil, openNamed(fabricPrefix, name, err)
	}
	return d, nil
}

// A portOpening is what a device has of a port.
type portOpening struct {
	share   *attach.Share // nil for the whole port
	slots   slots         // for other programs; nil if the port is not shared
	mirror  *trace.Mirror
	record  *recorder.Memory
	release func() error
}

// attach attaches to a port and opens a device on it.
func (s *Stack) attach(ctx context.Context, name string, cfg *Config, o *portOpening) (*Device, error) {
	control, recovery, err := transmission(cfg.Congestion, cfg.Recovery)
	x, rulesErr := cfg.injector(name, InfiniBand)
	if err = errors.Join(err, cfg.refuseFabric(), rulesErr, cfg.checkSanitize()); err != nil {
		return nil, err
	}
	p, err := fabric.Open(ctx, name, o.share, adapter.Config{
		Spin: cfg.spin(), Window: cfg.Window, Control: control, Recovery: recovery, PeerTimeout: cfg.PeerTimeout, KeepReasons: cfg.KeepReasons, Mirror: o.mirror, Record: o.record,
		Sanitizer: s.sanitizer(cfg), Faults: x,
	})
	if err != nil {
		return nil, err
	}
	info := p.Port.Info()
	d := &Device{
		protocol: InfiniBand, spin: cfg.spin(), guid: info.NodeInfo.NodeGUID, fabric: p, choice: fabricChoice(info), faults: x,
		drv: p, local: p.Device.Device, slots: o.slots, release: o.release,
		state: func() host.PortState { return host.PortState{Up: p.Active(), Addr: true} },
	}
	d.sameHost.why = reason.Detail{Reason: reason.HostFabric, Expected: 1}.Err()
	d.attr = attributes(d.Name(), GUID(d.guid), GUID(info.NodeInfo.SystemImageGUID), InfiniBand)
	d.attr.MaxPKeys = len(fabric.Config(info).PKeys)
	e := &registry.Entry{Handle: d, Provider: p, Adapter: d.local, Fabric: p.Port, Subnet: sa.New(p.Port, d.local)}
	if d.slots != nil {
		e.Slots = deviceSlots{d}
	}
	s.reg().Add(e)
	d.answer()
	return d, nil
}

// laneSlots are lanes of a port of a fabric, or of the address of an iWARP device. A program needs no
// descriptor: it attaches to the port itself, with the key, or makes its own TCP connections.
type laneSlots struct {
	*steering.Lending
	key [16]byte
}

func newLaneSlots() *laneSlots {
	p := &laneSlots{Lending: steering.NewLending(1, sharedLanes)}
	_, _ = rand.Read(p.key[:]) // never fails
	return p
}

// Take implements slots.
func (p *laneSlots) Take() (lane int, fds []int, err error) {
	lane, err = p.TakeNext() // a fabric on another host notices late that a program has ended
	return lane, nil, err
}

// Key implements slots.
func (p *laneSlots) Key() [16]byte { return p.key }

// Close implements slots.
func (p *laneSlots) Close() {}

// refuseFabric refuses settings that do not apply to a port of a fabric.
func (cfg *Config) refuseFabric() error {
	switch {
	case cfg.Lanes > 1:
		return reason.NotSupported("lanes: expected 1 of a port of a fabric, found %d", cfg.Lanes)
	case cfg.TLS != nil || cfg.NoCRC || cfg.Markers || cfg.TCPCongestion != "":
		return reason.NotSupported("TLS, NoCRC, Markers and TCPCongestion: expected a device of another protocol than %v", InfiniBand)
	case cfg.MTU != 0:
		return reason.NotSupported("MTU: the subnet manager chooses that of a port of a fabric")
	}
	mode, _, err := cfg.sameHost()
	if err == nil && mode == samehost.Require { // all packets of a port go through the fabric
		err = reason.Detail{Reason: reason.HostFabric, Expected: 1}.Err()
	}
	return err
}

// fabricChoice describes the port as an interface.
func fabricChoice(i *attach.Info) host.Choice {
	return host.Choice{
		Addr: netip.AddrPortFrom(fabric.Addr(i), infiniband.Number), Interface: host.Interface{Name: i.Address().String()},
		Why: []string{fmt.Sprintf("It is port %d of %s in fabric %s, whose packets all go through the fabric.", i.Port, i.Node, i.Fabric)},
	}
}

// fabricGIDs returns the GID table of the port without its empty entries.
func (d *Device) fabricGIDs() (list []GIDEntry) {
	for i, g := range d.fabric.FabricPort().GIDs {
		if g != (GID{}) {
			list = append(list, GIDEntry{i, g, InfiniBand.String(), d.Name()})
		}
	}
	return list
}

// queryFabric implements QueryPort for a port of a fabric.
func (d *Device) queryFabric() PortAttr {
	p := d.fabric.FabricPort()
	return PortAttr{
		Active: PortState(p.State) == PortActive, State: PortState(p.State), MaxMTU: p.MaxMTU, ActiveMTU: p.ActiveMTU, SpeedMbps: p.SpeedMbps,
		GIDs: len(d.fabricGIDs()), PKey: p.PKeys[0], PKeys: p.PKeys, LinkLayer: InfiniBand.String(),
		LID: p.LID, LMC: p.LMC, SMLID: p.SMLID, SMSL: p.SMSL, SubnetPrefix: p.SubnetPrefix,
	}
}
