package msg

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"softrdma/internal/message"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/regcache"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A rail is a device of a worker, and what the worker has on it.
type rail struct {
	dev      *verbs.Device
	pd       *verbs.PD
	events   *verbs.CompChannel
	cq       *verbs.CQ // of all connections
	cache    *regcache.Cache
	listener *rdmacm.Listener
	room     int           // completions that connections may have
	armed    chan struct{} // for drive
	gone     atomic.Bool   // the device has closed
}

// newRail prepares a device. After an error the caller closes what there is of it.
func newRail(dev *verbs.Device, cached int) (r *rail, err error) {
	r = &rail{dev: dev, armed: make(chan struct{}, 1)}
	if r.pd, err = dev.AllocPD(); err != nil {
		return r, err
	}
	r.cache = regcache.New(r.pd, cached)
	if r.events, err = dev.CreateCompChannel(); err != nil {
		return r, err
	}
	if r.cq, err = dev.CreateCQ(verbs.CQConfig{Channel: r.events}); err != nil {
		return r, err
	}
	at := netip.AddrPortFrom(dev.Addr().Addr(), 0)
	r.listener, err = rdmacm.Listen(at.String(), rdmacm.ListenConfig{Device: dev})
	return r, err
}

// address returns how peers find the device.
func (r *rail) address() format.RailAddress {
	return format.RailAddress{
		Protocol: r.dev.Protocol(), Listener: netip.MustParseAddrPort(r.listener.Addr().String()), UDP: r.dev.Addr().Port(),
	}
}

// close destroys what the worker had on the device. A device that has closed has done so.
func (r *rail) close() (err error) {
	keep := func(e error) {
		if err == nil && !r.gone.Load() {
			err = e
		}
	}
	if r.cq != nil {
		keep(r.cq.Destroy())
	}
	if r.events != nil {
		keep(r.events.Destroy())
	}
	if r.pd != nil {
		keep(r.pd.Dealloc())
	}
	return err
}

// newRails prepares the devices of a worker, of which dev is the first.
func (w *Worker) newRails(dev *verbs.Device) error {
	devices := append([]*verbs.Device{dev}, w.config.Rails...)
	if len(devices) > message.MaxRails {
		return fmt.Errorf("msg: %d devices, expected at most %d", len(devices), message.MaxRails)
	}
	for _, d := range devices {
		r, err := newRail(d, w.config.Cache)
		w.rails = append(w.rails, r)
		if err != nil {
			for _, r := range w.rails {
				if r.listener != nil {
					_ = r.listener.Close() // nothing uses it
				}
				_ = r.close() // it is empty
			}
			return err
		}
	}
	w.rail = w.rails[0]
	return nil
}

// drive handles a device's events until the worker closes. With ProgressPackage it makes progress, otherwise it
// wakes those who wait. It waits for events only after arm, because a goroutine that waits makes
// the device slower for those who poll.
func (w *Worker) drive(r *rail) {
	for {
		select {
		case <-r.armed:
		case <-w.context.Done():
			return
		}
		_, err := r.events.Next(w.context)
		if w.context.Err() != nil {
			return
		}
		w.mu.Lock()
		if err != nil { // the device has closed
			w.lose(r, err)
			w.flush()
		}
		w.event()
		w.unlock()
		if err != nil {
			return
		}
	}
}

// lose ends what used a device that has closed. The caller holds the lock.
func (w *Worker) lose(r *rail, err error) {
	if r.gone.Load() {
		return
	}
	r.gone.Store(true)
	for _, c := range w.connections() {
		if c.rail == r {
			c.drainRing()
			c.fail(err)
		}
	}
}

// connections returns the connections that have queue pairs. The caller holds the lock.
func (w *Worker) connections() (list []*connection) {
	for _, c := range w.conns {
		if c.group == nil {
			list = append(list, c)
			continue
		}
		for _, m := range c.group.members {
			if m != nil && m.err == nil {
				list = append(list, m)
			}
		}
	}
	return list
}
