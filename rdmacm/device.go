package rdmacm

import (
	"crypto/tls"
	"fmt"
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/provider/local"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// An origin is the source of ids: a connection manager with its devices.
type origin struct {
	manager provider.ConnectionManager
	stack   *registry.Registry // its devices
}

// processOrigin returns the origin of ids whose device the host's routing or
// their local address chooses.
func processOrigin() origin { return stackOrigin(registry.Process) }

// stackOrigin returns the origin of ids on the devices of a stack. Only in the process's own
// stack do ids open devices by themselves.
func stackOrigin(stack *registry.Registry) origin {
	var open registry.Opener
	if stack == registry.Process {
		open = openDevice
	}
	return origin{manager: local.Connections{Manager: stack.Connections(open)}, stack: stack}
}

// ownsAddress refuses a port of a fabric if another open device of its stack has the port's IP
// address, because ids would find that device.
func ownsAddress(dev *verbs.Device) error {
	e := registry.Of(dev)
	if e == nil || e.Fabric == nil {
		return nil
	}
	other := e.Registry().Claim(e)
	if other == e {
		return nil
	}
	return &reason.Error{Detail: reason.Detail{Reason: reason.IDPort}, Cause: ErrAddrInUse,
		Text: fmt.Sprintf("%v has the address of %v: give the fabrics different addresses by --network, or open each in a stack of its own (verbs.Stack)",
			other.Fabric.Info().Address(), e.Fabric.Info().Address())}
}

// originOf returns the origin of ids on an open device.
func originOf(dev *verbs.Device) (origin, error) {
	e := registry.Of(dev)
	if e == nil {
		return origin{}, verbs.ErrClosed
	}
	return stackOrigin(e.Registry()), nil
}

// device returns the device of an id of the origin, or nil if there is none or the program has
// closed it.
func (o *origin) device(id provider.ID) *verbs.Device {
	at := id.Device()
	if !at.IsValid() {
		return nil
	}
	e := o.stack.Find(at)
	if e == nil {
		return nil
	}
	return e.Handle.(*verbs.Device)
}

// openDevice opens a device for ids.
func openDevice(at netip.AddrPort, security *tls.Config) (registry.Handle, error) {
	dev, err := verbs.Open(deviceName(at), verbs.Config{TLS: security})
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// deviceName returns the name by which package verbs opens the device of an
// address.
func deviceName(at netip.AddrPort) string {
	switch at.Port() {
	case 0:
		return "iwarp:" + at.Addr().String()
	case cmid.RoCEv1Port:
		return "roce1:" + at.Addr().String()
	}
	return at.String()
}

// A SecurityError is a Dialer or ListenConfig whose TLS differs from that of the
// device that is open on its address. One address has one device in a process,
// with one TLS configuration or none.
type SecurityError struct {
	Device string // the device's name
	TLS    bool   // the open device has TLS
}

// Unwrap returns the named reason (verbs.ReasonError).
func (e *SecurityError) Unwrap() error {
	d := reason.Detail{Reason: reason.TLSMismatch, Expected: 1}
	if e.TLS {
		d.Found = 1
	}
	return d.Err()
}

// Error names the device and its TLS setting.
func (e *SecurityError) Error() string {
	have := "without TLS"
	if e.TLS {
		have = "with another TLS configuration"
	}
	return fmt.Sprintf("device %s is in use in this process %s: expected the same *tls.Config for all connections of an address", e.Device, have)
}
