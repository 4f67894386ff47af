package cmid

import (
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A PortSpace is a set of port numbers with a service type. The numbers are those of
// rdma_port_space.
type PortSpace = mad.PortSpace

// The port spaces.
const (
	PortSpaceIPoIB = mad.PortSpaceIPoIB // UD over IP over InfiniBand; not on RoCE
	PortSpaceTCP   = mad.PortSpaceTCP   // RC
	PortSpaceUDP   = mad.PortSpaceUDP   // UD
	PortSpaceIB    = mad.PortSpaceIB    // any service type
)

// ServiceType returns the service type of an id that chooses none.
func ServiceType(space PortSpace) qp.Type {
	if space == PortSpaceUDP || space == PortSpaceIPoIB {
		return qp.UD
	}
	return qp.RC
}

// CheckType returns an error if ids of the port space cannot have the service type.
func CheckType(space PortSpace, t qp.Type) error {
	switch {
	case t != qp.RC && t != qp.UC && t != qp.UD:
		return reason.BadArgument(0, 0, "service type: expected RC, UC or UD, found %v", t)
	case space == PortSpaceIB:
		return nil
	case space != PortSpaceTCP && space != PortSpaceUDP && space != PortSpaceIPoIB:
		return reason.BadArgument(0, 0, "unknown port space %#06x", uint16(space))
	case t != ServiceType(space):
		return reason.BadArgument(0, 0, "port space %v: expected service type %v, found %v", space, ServiceType(space), t)
	}
	return nil
}
