package mad

import "fmt"

// A ServiceID names the service that a REQ or a SIDR_REQ is for (IBTA 12.7.3).
type ServiceID uint64

// A PortSpace is a protocol whose ports are mapped to service IDs by the IP CM
// service (IBTA annex A11.3.1); the numbers are those of rdma_port_space.
type PortSpace uint16

// The port spaces.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013f
)

const ipService ServiceID = 0x0000000001000000

// ServiceOf returns the service ID of a port.
func ServiceOf(ps PortSpace, port uint16) ServiceID {
	return ipService | ServiceID(ps)<<16 | ServiceID(port)
}

// Port returns the port space and port that ServiceOf made the service ID of, if it did.
func (s ServiceID) Port() (ps PortSpace, port uint16, ok bool) {
	ps, port = PortSpace(s>>16), uint16(s)
	switch {
	case s>>32 != 0 || s&ipService == 0:
		return 0, 0, false
	case ps == PortSpaceTCP || ps == PortSpaceUDP || ps == PortSpaceIB:
		return ps, port, true
	case ps == PortSpaceIPoIB|PortSpace(ipService>>16):
		return PortSpaceIPoIB, port, true
	}
	return 0, 0, false
}

// String names port space and port if the service ID has them.
func (s ServiceID) String() string {
	ps, port, ok := s.Port()
	if !ok {
		return fmt.Sprintf("service ID %#016x", uint64(s))
	}
	return fmt.Sprintf("%v port %d", ps, port)
}

// String names the port space.
func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPoIB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return fmt.Sprintf("port space %#04x", uint16(p))
}
