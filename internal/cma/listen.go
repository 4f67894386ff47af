package cma

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// MaxBacklog is the largest and the default backlog.
const MaxBacklog = 1024

// A listening is a listener on one device.
type listening struct {
	dev *device
	l   *cm.Listener            // for RoCE
	s   *adapter.StreamListener // for iWARP
}

// Listen makes the id accept connect requests on its device, or on all devices if
// it is bound to the unspecified address. An id that is not bound is first bound to
// the unspecified IPv4 address. Backlog bounds the requests that Next has not
// returned yet; 0 means MaxBacklog, the maximum. More requests are ignored, and
// their peers send them again.
//
// A listener on all devices skips those that it cannot use, for example because
// another process has the device of an address. Listen fails if it skips all.
// LeftOut returns the skipped addresses. If the host has no address of the listener's
// family, the listener waits for one (Manager.Refresh), as in Linux.
func (id *ID) Listen(backlog int) error {
	id.m.lock()
	defer id.m.unlock()
	if id.state == cmid.Idle {
		if err := id.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0), netip.AddrPort{}); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if err := id.want("listen", cmid.AddrBound); err != nil {
		return err
	}
	if id.space == cmid.PortSpaceIPoIB && id.dev == nil {
		return fmt.Errorf("listen on %v: %w", id.local, errIPoIBWildcard)
	}
	// A listener cannot share its port.
	if id.option.reuse {
		if err := id.m.checkPort(id.port, id, false); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		id.option.reuse = false
	}
	if backlog <= 0 || backlog > MaxBacklog {
		backlog = MaxBacklog
	}
	id.backlog = backlog
	var err error
	if id.dev != nil {
		err = id.listenOn(id.dev)
	} else {
		err = id.listenOnAll()
	}
	if err != nil {
		return fmt.Errorf("listen on %v: %w", id.local, err)
	}
	id.state = cmid.Listen
	return nil
}

func (at *endpoint) service() mad.ServiceID { return mad.ServiceOf(at.space, at.local.Port()) }

// listenOn listens on a device. The id takes over the use that the caller counted.
func (id *ID) listenOn(d *device) error {
	if d.dev.IWARP() {
		if err := id.checkProtocol(true); err != nil {
			return err
		}
		return id.listenStream(d)
	}
	return d.do(func(c *cm.Manager, now time.Duration) error {
		l, err := c.Listen(now, id.service())
		if err != nil {
			return err
		}
		l.Backlog = id.backlog
		id.listens = append(id.listens, listening{dev: d, l: l})
		d.listeners[l] = id
		return nil
	})
}

func (id *ID) listenOnAll() error {
	addrs, err := id.m.host.Addresses()
	if err != nil {
		return fmt.Errorf("no list of this host's addresses: %w", err)
	}
	id.leftOut = nil
	for _, a := range addrs {
		id.listenTo(a.Unmap())
	}
	if len(id.listens) == 0 && len(id.leftOut) > 0 {
		return errors.Join(append([]error{errNoDevice}, id.leftOut...)...)
	}
	id.m.wildcards[id] = struct{}{}
	return nil
}

var errNoDevice = reason.BadArgument(0, 0, "expected a device to listen on, found none")

// listenTo makes a wildcard listener listen on one address, unless the address is
// of the wrong family or the listener has it already.
func (id *ID) listenTo(a netip.Addr) {
	if a.Is4() != id.local.Addr().Is4() && id.option.afOnly || a.Is6() && id.local.Addr().Is4() {
		return
	}
	o := id.option
	if o.device.Protocol != cmid.Any {
		id.listenAs(a, &o)
		return
	}
	// The port of iWARP is the system's, and the id may need another one
	// (listenStream).
	for _, o.device.Protocol = range []cmid.Protocol{cmid.IWARP, cmid.RoCE, cmid.RoCEv1, cmid.InfiniBand} {
		id.listenAs(a, &o)
	}
}

// listenAs listens on the device that the options choose for an address.
func (id *ID) listenAs(a netip.Addr, o *options) {
	d, err := id.m.acquire(a, o)
	if err == nil && !slices.ContainsFunc(id.listens, func(x listening) bool { return x.dev == d }) {
		if err = id.listenOn(d); err == nil {
			return // the listener keeps the use of the device
		}
	}
	if d != nil {
		d.release()
	}
	if err != nil {
		id.leftOut = append(id.leftOut, fmt.Errorf("%v: %w", a, err))
	}
}

// LeftOut returns the addresses on which a listener on all devices could not
// listen, and why.
func (id *ID) LeftOut() []error {
	id.m.lock()
	defer id.m.unlock()
	return id.leftOut
}

// Refresh makes listeners on all devices listen on new addresses of the host.
// RemoveDevice removes the devices of addresses that are gone.
func (m *Manager) Refresh() error {
	m.lock()
	defer m.unlock()
	var errs []error
	for _, id := range m.sorted(m.wildcards) {
		errs = append(errs, id.listenOnAll())
	}
	return errors.Join(errs...)
}

// unlisten ends Listen.
func (id *ID) unlisten() {
	for len(id.listens) > 0 {
		id.unlistenOn(0)
	}
	delete(id.m.wildcards, id)
}

func (id *ID) unlistenOn(i int) {
	x := id.listens[i]
	id.listens = append(id.listens[:i:i], id.listens[i+1:]...)
	if x.s != nil {
		delete(x.dev.listeners, x.s)
		x.s.Close()
	} else {
		delete(x.dev.listeners, x.l)
		_ = x.dev.do(func(c *cm.Manager, now time.Duration) error { // fails if the device is closed, which has no listeners
			x.l.Close()
			return nil
		})
	}
	if x.dev != id.dev {
		x.dev.release()
	}
}
