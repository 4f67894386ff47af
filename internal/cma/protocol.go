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
)

// SetProtocol chooses what the id's device speaks, before Bind and ResolveAddr.
// It has no counterpart in librdmacm, where a device is found by its address
// alone.
func (id *ID) SetProtocol(p Protocol) error {
	return id.set("set protocol", func(o *options) error {
		if err := id.want("set protocol", Idle); err != nil {
			return err
		}
		o.protocol = p
		return nil
	})
}

// checkProtocol tells whether a protocol has an id's port space.
func (id *ID) checkProtocol() error {
	if id.option.protocol != IWARP || id.space == PortSpaceTCP && id.kind == qp.RC {
		return nil
	}
	return fmt.Errorf("iWARP has reliable connections in RDMA_PS_TCP alone, found %v, service type %v: %w", id.space, id.kind, errors.ErrUnsupported)
}

// place is where the id's device of a local address is.
func (id *ID) place(local netip.Addr) netip.AddrPort {
	if id.option.protocol == IWARP {
		return netip.AddrPortFrom(local, 0)
	}
	return udp(local, id.option.localUDP)
}
