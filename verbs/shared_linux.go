package verbs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/daemon"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link/udp"
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
	d, err := s.startShared(slot, cfg)
	if err != nil {
		return nil, openNamed(sharedPrefix, name, errors.Join(fmt.Errorf("daemon on %s: %w", slot.Socket, err), slot.Close()))
	}
	return d, nil
}

func (s *Stack) startShared(slot *daemon.Slot, cfg *Config) (*Device, error) {
	m := &trace.Mirror{Counters: (*trace.Counters)(unsafe.Pointer(&slot.Counters[0]))}
	runtime.AddCleanup(m, func(mem []byte) { _ = unix.Munmap(mem) }, slot.Counters) // refusals of a closed device still count
	choice, err := host.Resolve(slot.Addr.String())
	if err != nil {
		return nil, err
	}
	choice.Why = append(choice.Why, fmt.Sprintf("The daemon on %s (process %d) shares it.", slot.Socket, slot.PID))
	c := *cfg
	c.MTU, c.SameHost = slot.MTU, or(c.SameHost, SameHost(slot.SameHost))
	p := opening{choice: choice, release: slot.Close, mirror: m, hostDir: slot.SameHostDir}
	if err := p.check(&c); err != nil {
		return nil, err
	}
	u := udpConfig(&choice, &c)
	u.Key = slot.Key
	l, err := udp.OpenSlot(slot.Descriptors(), choice.Addr, u)
	if err != nil {
		return nil, err
	}
	p.links = links{networks: rocev2.Networks([]*udp.Link{l}), share: frame.Share{First: slot.First, Lanes: 1, Of: slot.Of}}
	d, err := s.start(&p, &c)
	if err != nil || slot.Capture == "" {
		return d, err
	}
	if err := d.joinCapture(captureFile{slot.Capture, slot.CaptureID}); err != nil {
		d.release = nil // the caller gives the slot back
		return nil, errors.Join(fmt.Errorf("capture: %w", err), d.Close())
	}
	return d, nil
}
