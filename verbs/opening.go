package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"softrdma/faults"
	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/host"
	"softrdma/internal/link/sealed"
	"softrdma/internal/provider/local"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/registry"
	"softrdma/internal/samehost"
	"softrdma/internal/trace"
)

// An opening is a device that is being opened.
type opening struct {
	choice   host.Choice
	protocol Protocol
	mtu      int
	control  congestion.Kind
	recovery congestion.Recovery
	mode     samehost.Mode
	allow    []string
	mirror   *trace.Mirror
	record   *recorder.Memory
	faults   *faults.Injector
	hostDir  string // of the memory path; empty for the default
	links    links
	port     *attach.Port // of an Ethernet fabric; nil for an address of this host
	release  func() error
}

// check applies the settings of a configuration.
func (p *opening) check(cfg *Config) (err error) {
	p.control, p.recovery, err = transmission(cfg.Congestion, cfg.Recovery)
	if err == nil && p.protocol == IWARP {
		err = refuseTransmission("iWARP leaves both to TCP", cfg.Congestion, cfg.Recovery)
	}
	var rulesErr error
	p.faults, rulesErr = cfg.injector(p.choice.Interface.Name, p.protocol)
	err = errors.Join(err, rulesErr)
	var modeErr error
	p.mode, p.allow, modeErr = cfg.sameHost()
	if err = errors.Join(err, modeErr, cfg.checkSanitize()); err != nil {
		return err
	}
	if err := p.checkSealed(cfg); err != nil {
		return err
	}
	room := p.choice.Interface.MTU
	if cfg.seals(p.protocol) {
		room -= sealed.Overhead
	}
	p.mtu = host.MTUFor(room)
	if p.mtu == 0 && p.protocol != IWARP {
		return fmt.Errorf("interface %s: %w", p.choice.Interface.Name, refusal(reason.InterfaceMTU, host.LeastMTU, p.choice.Interface.MTU))
	}
	if cfg.MTU != 0 {
		if err := checkMTU(cfg.MTU, p.mtu); err != nil {
			return err
		}
		p.mtu = cfg.MTU
	}
	return nil
}

// start makes the device on its links, and closes them if it fails.
func (s *Stack) start(p *opening, cfg *Config) (*Device, error) {
	choice := p.choice
	guid := host.GUID(choice.Interface, choice.Addr.Addr())
	var b *adapter.Loopback
	if p.protocol != IWARP && !cfg.NoLoopback && !cfg.seals(p.protocol) {
		b = &s.reg().Loopback
	}
	d := &Device{
		stack: s, choice: choice, protocol: p.protocol, spin: cfg.spin(), guid: guid, zone: choice.Addr.Addr().Zone(),
		slots: p.links.slots, release: p.release,
	}
	a := adapter.Open(adapter.Config{
		Networks: p.links.networks, Share: p.links.share, Streams: p.links.streams, Spin: d.spin, Window: cfg.Window,
		Control: p.control, Recovery: p.recovery, MTU: p.mtu, GUID: guid, PeerTimeout: cfg.PeerTimeout, KeepReasons: cfg.KeepReasons,
		Loopback: b, Mirror: p.mirror, Record: p.record, Faults: p.faults, NoCRC: cfg.NoCRC, Markers: cfg.Markers,
		Sanitizer: s.sanitizer(cfg),
		HostBells: p.mode != samehost.Off && p.protocol != IWARP, MemoryOnly: p.mode == samehost.Require,
		Reach: func(peer qp.Endpoint, qpn uint32) error { return s.reach(d, cfg, peer, qpn) },
	})
	if p.links.sealed != nil {
		p.links.sealed.Report(func(why reason.Detail) { a.Trace.Refuse(0, why) })
	}
	d.drv, d.local, d.faults = local.Device{Device: a}, a, p.faults
	if err := d.publish(p); err != nil {
		return nil, errors.Join(err, a.Close(), d.giveUp())
	}
	d.attr, d.state = attributes(d.Name(), GUID(guid), GUID(host.SystemGUID(choice.Interface, choice.Addr.Addr())), p.protocol), d.portState
	d.gids = gidTable(p.protocol, choice.Addr.Addr(), choice.Interface.MAC, choice.Interface.Name)
	switch {
	case p.port != nil:
		d.follow(p.port)
	case s.reg().Networks == nil:
		d.watch()
	}
	e := &registry.Entry{Handle: d, Provider: d.drv, Adapter: a, TLS: cfg.TLS, Ethernet: p.port}
	if d.slots != nil {
		e.Slots = deviceSlots{d}
	}
	s.reg().Add(e)
	d.answer()
	return d, nil
}

// openReason returns the error with the reason DEVICE_OPEN unless it already has a reason.
func openReason(err error, port uint16) error {
	if errors.As(err, new(ReasonError)) {
		return err
	}
	d := reason.Detail{Reason: reason.DeviceOpen, Expected: uint64(port)}
	if no := syscall.Errno(0); errors.As(err, &no) {
		d.Found = uint64(no)
	}
	return &reason.Error{Detail: d, Text: err.Error(), Cause: err}
}
