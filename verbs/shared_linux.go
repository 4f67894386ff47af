package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/faults"
	"softrdma/internal/away"
	"softrdma/internal/daemon"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link/tcp"
	"softrdma/internal/link/udp"
	"softrdma/internal/recorder"
	"softrdma/internal/steering"
	"softrdma/internal/trace"
)

// openSlot opens a device on a slot of a daemon's device.
func (s *Stack) openSlot(ctx context.Context, name string, cfg *Config) (*Device, error) {
	err := cfg.refuseShared()
	var slot *daemon.Slot
	if err == nil {
		slot, err = daemon.TakeSlot(ctx, name)
	}
	if err != nil {
		return nil, openNamed(sharedPrefix, name, err)
	}
	d, err := s.startShared(ctx, slot, cfg)
	if err != nil {
		return nil, openNamed(sharedPrefix, name, errors.Join(fmt.Errorf("daemon on %s: %w", slot.Socket, err), slot.Close()))
	}
	return d, nil
}

func (s *Stack) startShared(ctx context.Context, slot *daemon.Slot, cfg *Config) (d *Device, err error) {
	if len(slot.Memory) != recorder.SlotSize {
		return nil, fmt.Errorf("memory of the slot: expected %d bytes, found %d: %w", recorder.SlotSize, len(slot.Memory), errors.Join(syscall.EPROTO, unix.Munmap(slot.Memory)))
	}
	shared := recorder.SlotIn(slot.Memory)
	m := &trace.Mirror{Page: &shared.Page}
	runtime.AddCleanup(m, func(mem []byte) { _ = unix.Munmap(mem) }, slot.Memory) // refusals of a closed device still count
	own := *cfg
	own.KeepReasons = own.KeepReasons || slot.KeepReasons
	if own.Faults == nil && slot.Rules != nil {
		rules, err := faults.Parse(slot.Rules)
		if err != nil {
			return nil, err
		}
		own.Faults = &rules
	}
	cfg = &own
	port := &portOpening{
		share: &attach.Share{
			Key: slot.Key[:], Lane: slot.First, Of: slot.Of, Place: &attach.Place{Directory: slot.FabricDir, Secret: slot.FabricSecret},
		}, mirror: m, record: &shared.Memory, release: slot.Close,
	}
	switch p := Protocol(slot.Protocol); {
	case p == InfiniBand:
		d, err = s.attach(ctx, slot.Interface, cfg, port)
	case slot.EthernetPort != "":
		cfg.MTU = slot.MTU
		d, err = s.attachEthernet(ctx, p, slot.EthernetPort, cfg, port)
	default:
		d, err = s.openShare(slot, cfg, m, &shared.Memory)
	}
	if err == nil {
		d.kept.tell = func(dir string) error { return tellRecords(slot, dir) }
	}
	if err != nil || slot.Capture == "" {
		return d, err
	}
	if err := d.joinCapture(captureFile{slot.Capture, slot.CaptureID}); err != nil {
		return nil, errors.Join(fmt.Errorf("capture: %w", err), d.Close())
	}
	return d, nil
}

// openShare opens a device on a share of a local address.
func (s *Stack) openShare(slot *daemon.Slot, cfg *Config, m *trace.Mirror, r *recorder.Memory) (*Device, error) {
	protocol := Protocol(slot.Protocol)
	choice, err := chooseShared(protocol, slot)
	if err != nil {
		return nil, err
	}
	c := *cfg
	if protocol != IWARP {
		c.MTU = slot.MTU
	}
	c.SameHost = or(c.SameHost, SameHost(slot.SameHost))
	p := opening{choice: choice, protocol: protocol, release: slot.Close, mirror: m, record: r, hostDir: slot.SameHostDir}
	if err := p.check(&c); err != nil {
		return nil, err
	}
	p.links.share = steering.Share{First: slot.First, Lanes: 1, Of: slot.Of}
	switch protocol {
	case IWARP:
		return s.openIWARPSlot(slot, &p, &c)
	case RoCEv1:
		p.links.networks, err = openRoCEv1Slot(slot.Descriptors(), &choice, &c, p.links.share)
	default:
		p.links.networks, err = openRoCESlot(slot, &choice, &c)
	}
	if err != nil {
		return nil, err
	}
	return s.start(&p, &c)
}

// tellRecords tells the daemon where to write the flight recorder if this process ends without closing
// the device. A daemon that has ended is not told.
func tellRecords(slot *daemon.Slot, dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	conn, err := slot.Conn()
	if err == nil {
		away.NewProgram(conn).Keep(int(d.Fd()))
		err = conn.Close()
	}
	return errors.Join(err, d.Close())
}

// openIWARPSlot opens a device whose queue pairs the daemon's connection manager connects.
func (s *Stack) openIWARPSlot(slot *daemon.Slot, p *opening, cfg *Config) (*Device, error) {
	conn, err := slot.Conn()
	if err != nil {
		return nil, err
	}
	program := away.NewProgram(conn)
	if slot.Relayed {
		p.links.streams, err = tcp.OpenRelayed(p.choice.Addr.Addr(), program.Connect)
	} else {
		p.links.streams, err = s.openStreams(&p.choice, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p.release = func() error { return errors.Join(conn.Close(), slot.Close()) }
	d, err := s.start(p, cfg)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go program.Serve(d.local)
	return d, nil
}

// chooseShared finds the address of a slot.
func chooseShared(p Protocol, slot *daemon.Slot) (c host.Choice, err error) {
	name := slot.Addr.String()
	if p != RoCE {
		name = slot.Addr.Addr().String() // its port is a number of its own
	}
	if c, err = choose(p, name); err == nil {
		c.Why = append(c.Why, fmt.Sprintf("The daemon on %s (process %d) shares it.", slot.Socket, slot.PID))
	}
	return c, err
}

// openRoCESlot opens the sockets of a lane that a daemon has lent.
func openRoCESlot(slot *daemon.Slot, c *host.Choice, cfg *Config) ([]frame.Network, error) {
	u := udpConfig(c, cfg)
	u.Key = slot.Key
	l, err := udp.OpenSlot(slot.Descriptors(), c.Addr, u)
	if err != nil {
		return nil, err
	}
	return rocev2.Networks([]*udp.Link{l}), nil
}
