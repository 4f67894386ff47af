package msg

import (
	"fmt"
	"net/netip"
	"slices"

	"softrdma/internal/carrier"
	"softrdma/internal/message"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/regcache"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A rail is a device of a worker, and what the worker has on it.
type rail struct {
	on       *carrier.Rail
	pd       *verbs.PD
	cache    *regcache.Cache
	listener *rdmacm.Listener
}

// newRail prepares a device.
func (w *Worker) newRail(dev *verbs.Device) error {
	on, err := w.e.On(dev)
	if err != nil {
		return err
	}
	r := &rail{on: on}
	if r.pd, err = w.domain.PD(on); err != nil {
		return err
	}
	r.cache = regcache.New(r.pd, w.config.Cache)
	at := netip.AddrPortFrom(dev.Addr().Addr(), 0)
	if r.listener, err = rdmacm.Listen(at.String(), rdmacm.ListenConfig{Device: dev}); err != nil {
		return err
	}
	w.rails = append(w.rails, r)
	return nil
}

// address returns how peers find the device.
func (r *rail) address() format.RailAddress {
	return format.RailAddress{
		Protocol: r.on.Dev.Protocol(), Listener: netip.MustParseAddrPort(r.listener.Addr().String()), UDP: r.on.Dev.Addr().Port(),
	}
}

// newRails prepares the devices of a worker, of which dev is the first.
func (w *Worker) newRails(dev *verbs.Device) error {
	devices := append([]*verbs.Device{dev}, w.config.Rails...)
	if len(devices) > message.MaxRails {
		return fmt.Errorf("msg: %d devices, expected at most %d", len(devices), message.MaxRails)
	}
	var err error
	if w.e, err = carrier.NewEngine(dev, host{w}); err != nil {
		return err
	}
	if w.domain, err = carrier.NewDomain(w.e.First()); err != nil {
		_ = w.e.Close() // it has no connection
		return err
	}
	for _, d := range devices {
		if err := w.newRail(d); err != nil {
			for _, r := range w.rails {
				_ = r.listener.Close() // nothing uses it
			}
			w.domain.Release()
			_ = w.e.Close()
			return err
		}
	}
	w.rail = w.rails[0]
	return nil
}

// railOn returns the worker's rail of the carrier's.
func (w *Worker) railOn(on *carrier.Rail) *rail {
	return w.rails[slices.IndexFunc(w.rails, func(r *rail) bool { return r.on == on })]
}

// A host is a worker as its engine knows it.
type host struct{ w *Worker }

// Event implements carrier.Host, as Unlock does. With ProgressPackage it makes progress, otherwise it wakes
// all waiters.
func (h host) Event() { h.w.event() }

// Unlock makes the calls that wait, too.
func (h host) Unlock() { h.w.unlock() }
