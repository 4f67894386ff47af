package rdmacm

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// An ID is one end of a connection, of a datagram service or of a multicast group,
// or a listener (struct rdma_cm_id). NewID makes it and Destroy ends it.
type ID struct {
	// Context belongs to the program. The id of a connect request has its
	// listener's context.
	Context any

	c     provider.ID
	asked ConnParam // of a connect request

	run     *hubRun      // of an id of the hub; guarded by its mutex
	deliver func(*Event) // takes the events of an id of the hub

	mu        sync.Mutex
	ch        *EventChannel
	src       *source        // of ch
	dev       *verbs.Device  // from UseDevice, or of src
	options   map[Option]int // applied to the id that UseDevice makes
	security  *tls.Config    // from UseTLS
	remoteUDP uint16
	timeout   uint8 // options ResponseTimeout and Retries
	retries   uint8
	pd        *verbs.PD // the id's own
	qp        *verbs.QP
	srq       bool
	sendCQ    *verbs.CQ // made with the queue pair
	recvCQ    *verbs.CQ
	groups    map[netip.Addr]netip.Addr // groups that the queue pair is attached to, with the address of their GID, or the zero address if it only sends
	broken    bool                      // the queue pair could not be moved when the reply came
	away      bool                      // see leave
	destroyed bool
}

// UseDevice puts the id on an open device of the program, before Bind and ResolveAddr. Without
// it the local address or the host's routing chooses the device. The id's ports are those of
// the device's stack (verbs.Stack).
//
// Ports of two fabrics can have the same IP address. In one stack the address belongs to the
// device that was opened first; the error for another one wraps ErrAddrInUse.
func (id *ID) UseDevice(dev *verbs.Device) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := ownsAddress(dev); err != nil {
		return fmt.Errorf("use device %v: %w", dev.Addr(), err)
	}
	if err := id.c.SetProtocol(cmid.Protocol(dev.Protocol())); err != nil {
		return fmt.Errorf("use device %v: %w", dev.Addr(), err)
	}
	if err := id.manage(dev); err != nil {
		return fmt.Errorf("use device %v: %w", dev.Addr(), public(err))
	}
	if err := id.c.SetUDPPorts(dev.Addr().Port(), id.remoteUDP); err != nil {
		return fmt.Errorf("use device %v: %w", dev.Addr(), err)
	}
	id.dev = dev
	return nil
}

// manage moves the id, with its options, to the connection manager of a device.
// The caller holds mu.
func (id *ID) manage(dev *verbs.Device) error {
	o, err := originOf(dev)
	if err != nil || o == id.src.origin {
		return err
	}
	s, err := id.ch.holdFor(o)
	if err != nil {
		return err
	}
	c, err := s.c.NewID(id.c.PortSpace(), id.c.Type(), id)
	if err == nil {
		if err = id.carry(c, dev); err != nil {
			c.Destroy()
		}
	}
	if err != nil {
		id.ch.drop(s)
		return err
	}
	id.c.Destroy()
	id.ch.drop(id.src)
	id.c, id.src = c, s
	return nil
}

// carry applies the options of the id to a manager's id.
func (id *ID) carry(c provider.ID, dev *verbs.Device) error {
	if err := c.SetProtocol(cmid.Protocol(dev.Protocol())); err != nil {
		return err
	}
	if id.security != nil {
		if err := c.SetTLS(id.security); err != nil {
			return err
		}
	}
	for o, v := range id.options {
		if err := setOption(c, o, v); err != nil {
			return err
		}
	}
	if id.timeout == 0 && id.retries == 0 {
		return nil
	}
	return c.SetResponseTimeout(id.timeout, id.retries)
}

// UseTLS makes the id use a RoCE v2 or iWARP device with a TLS configuration, as described at
// verbs.Config.TLS, before Bind and ResolveAddr. It has no counterpart in
// librdmacm.
func (id *ID) UseTLS(cfg *tls.Config) error {
	if cfg == nil {
		return reason.BadArgument(0, 0, "use TLS: expected a configuration, found none")
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.c.SetTLS(cfg); err != nil {
		return fmt.Errorf("use TLS: %w", public(err))
	}
	id.security = cfg
	return nil
}

// Bind gives the id a local address and port (rdma_bind_addr). The unspecified
// address means every local address, or that of UseDevice. Port 0 chooses a free
// port. The error wraps ErrAddrInUse or ErrAddrNotAvail if the port is taken.
func (id *ID) Bind(local netip.AddrPort) error {
	local, err := id.onDevice(local)
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := id.c.Bind(local); err != nil {
		return fmt.Errorf("bind to %v: %w", local, public(err))
	}
	return nil
}

// onDevice replaces the unspecified address by that of UseDevice.
func (id *ID) onDevice(local netip.AddrPort) (netip.AddrPort, error) {
	id.mu.Lock()
	dev := id.dev
	id.mu.Unlock()
	a := local.Addr().Unmap()
	if dev == nil {
		return netip.AddrPortFrom(a, local.Port()), nil
	}
	has := dev.Addr().Addr()
	if a.IsValid() && !a.IsUnspecified() && a != has {
		return local, reason.BadArgument(0, 0, "expected an address of device %v, found %v", has, a)
	}
	return netip.AddrPortFrom(has, local.Port()), nil
}

// ResolveAddr finds the device by which the id reaches the destination
// (rdma_resolve_addr). If src is valid it binds the id to src first. It does not
// wait for the network: EventAddrResolved or EventAddrError follows at once.
func (id *ID) ResolveAddr(src, dst netip.AddrPort) error {
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	if !dst.Addr().IsValid() || dst.Addr().IsUnspecified() {
		return resolveError(dst.String(), reason.BadArgument(0, 0, "expected a peer's address, found none"))
	}
	src, err := id.onDevice(src)
	if err != nil {
		return resolveError(dst.String(), err)
	}
	if src.Addr().IsValid() && !sameFamily(src.Addr(), dst.Addr()) {
		return resolveError(dst.String(), reason.BadArgument(0, 0, "expected the family of the local address %v, found the other", src.Addr()))
	}
	if err := id.c.ResolveAddr(src, dst); err != nil {
		return resolveError(dst.String(), public(err))
	}
	return nil
}

// ResolveRoute finds the path to the destination (rdma_resolve_route).
// EventRouteResolved or EventRouteError follows.
func (id *ID) ResolveRoute() error {
	if err := id.c.ResolveRoute(); err != nil {
		return resolveError(id.RemoteAddr().String(), public(err))
	}
	return nil
}

// Listen accepts connect requests from the network (rdma_listen), up to backlog
// that the program has neither accepted nor rejected; 0 means DefaultBacklog. It
// ignores further requests, which their peers send again. An id that is bound to
// the unspecified address listens on every device that it can open, see LeftOut.
func (id *ID) Listen(backlog int) error {
	if backlog < 0 {
		return reason.BadArgument(0, uint64(backlog), "listen: backlog: expected 0 or more, found %d", backlog)
	}
	if backlog == 0 {
		backlog = DefaultBacklog
	}
	if err := id.c.Listen(backlog); err != nil {
		return fmt.Errorf("listen on %v: %w", id.LocalAddr(), public(err))
	}
	return nil
}

// LeftOut returns one error for each address on which a listener on every device
// could not listen.
func (id *ID) LeftOut() []error {
	list := slices.Clone(id.c.LeftOut())
	for i, err := range list {
		list[i] = public(err)
	}
	return list
}

// Migrate moves the id and its queued events to another channel
// (rdma_migrate_id).
func (id *ID) Migrate(to *EventChannel) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	s, err := to.holdFor(id.src.origin)
	if err != nil {
		return fmt.Errorf("migrate id: %w", public(err))
	}
	if err := id.c.Migrate(s.c); err != nil {
		to.drop(s)
		return fmt.Errorf("migrate id: %w", public(err))
	}
	id.ch.drop(id.src)
	id.ch, id.src = to, s
	return nil
}

// Destroy destroys the id in any state (rdma_destroy_id) with its queue pair,
// completion queues and protection domain. It rejects a peer that waits for an
// answer and disconnects a connected one. No event of the id follows. It fails
// with ErrBusy if the program has objects left in the protection domain; everything
// else is destroyed then, and another Destroy tries again.
func (id *ID) Destroy() error {
	id.mu.Lock()
	first := !id.destroyed
	id.destroyed = true
	id.mu.Unlock()
	if !first {
		return id.deallocPD()
	}
	err := id.DestroyQP()
	err = errors.Join(err, id.deallocPD())
	id.leave()
	return err
}

// leave ends the id for the peer and the channel. It does not change the queue
// pair.
func (id *ID) leave() {
	id.mu.Lock()
	ch, src := id.ch, id.src
	first := !id.away
	id.away = true
	id.mu.Unlock()
	if first {
		id.c.Destroy()
		ch.drop(src)
	}
}

// gone reports whether the program has destroyed the id or is about to.
func (id *ID) gone() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.away || id.destroyed
}

// Channel returns the channel that the id reports to.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// PortSpace returns the id's port space.
func (id *ID) PortSpace() PortSpace { return PortSpace(id.c.PortSpace()) }

// LocalAddr returns the local address and port as far as they are known.
func (id *ID) LocalAddr() netip.AddrPort { return id.c.Local() }

// RemoteAddr returns the peer's address and port as far as they are known.
func (id *ID) RemoteAddr() netip.AddrPort { return id.c.Remote() }

// Device returns the id's device, or nil before it is known. If the program did not open the
// device, it is closed with its last id.
func (id *ID) Device() *verbs.Device {
	id.mu.Lock()
	o := id.src.origin
	id.mu.Unlock()
	return o.device(id.c)
}
