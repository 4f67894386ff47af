package cma

import (
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/qp"
)

// A Protocol is what an id's device speaks.
type Protocol uint8

// The protocols.
const (
	RoCE  Protocol = iota // connections by the communication manager's datagrams
	IWARP                 // connections by MPA's frames, on the stream that they are
	Any                   // what the device of the id's address speaks, as librdmacm has it
)

// SetProtocol chooses what the id's device speaks, before Bind and ResolveAddr.
// It has no counterpart in librdmacm, where a device is found by its address
// alone: that is Any.
func (id *ID) SetProtocol(p Protocol) error {
	return id.set("set protocol", func(o *options) error {
		if err := id.want("set protocol", Idle); err != nil {
			return err
		}
		o.protocol = p
		return nil
	})
}

// SetWay chooses how the id's device was, or is to be, opened (Chooser), before Bind
// and ResolveAddr.
func (id *ID) SetWay(way any) error {
	return id.set("set way of opening", func(o *options) error {
		if err := id.want("set way of opening", Idle); err != nil {
			return err
		}
		o.way = way
		return nil
	})
}

// iwarp tells whether the id's device speaks iWARP.
func (id *ID) iwarp() bool {
	if id.option.protocol == Any {
		return id.dev != nil && id.dev.dev.IWARP()
	}
	return id.option.protocol == IWARP
}

// checkProtocol tells whether a protocol has an id's port space.
func (id *ID) checkProtocol(iwarp bool) error {
	if !iwarp || id.space == PortSpaceTCP && id.kind == qp.RC {
		return nil
	}
	return fmt.Errorf("iWARP has reliable connections in RDMA_PS_TCP alone, found %v, service type %v: %w", id.space, id.kind, errors.ErrUnsupported)
}

// place is where the id's device of a local address is.
func (id *ID) place(local netip.Addr) netip.AddrPort {
	if id.option.protocol != RoCE {
		return netip.AddrPortFrom(local, 0)
	}
	return udp(local, id.option.localUDP)
}
