package cma

import (
	"fmt"

	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// A PortSpace is a space of port numbers with the service types that it stands
// for; the numbers are those of rdma_port_space.
type PortSpace = mad.PortSpace

// The port spaces.
const (
	PortSpaceIPoIB = mad.PortSpaceIPoIB // UD over IP over InfiniBand; RoCE has none
	PortSpaceTCP   = mad.PortSpaceTCP   // RC
	PortSpaceUDP   = mad.PortSpaceUDP   // UD
	PortSpaceIB    = mad.PortSpaceIB    // any service type
)

// serviceType is the service type of ids that name none.
func serviceType(space PortSpace) qp.Type {
	if space == PortSpaceUDP || space == PortSpaceIPoIB {
		return qp.UD
	}
	return qp.RC
}

// checkType tells whether ids of a port space can have a service type.
func checkType(space PortSpace, t qp.Type) error {
	switch {
	case t != qp.RC && t != qp.UC && t != qp.UD:
		return fmt.Errorf("service type: expected RC, UC or UD, found %v", t)
	case space == PortSpaceIB:
		return nil
	case space != PortSpaceTCP && space != PortSpaceUDP && space != PortSpaceIPoIB:
		return fmt.Errorf("unknown port space %#06x", uint16(space))
	case t != serviceType(space):
		return fmt.Errorf("port space %v: expected service type %v, found %v", space, serviceType(space), t)
	}
	return nil
}
