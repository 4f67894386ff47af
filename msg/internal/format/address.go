package format

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// RailLen is the length of a RailAddress, of which an address has one for each device, at its end.
const RailLen = 1 + 16 + 2 + 2

// An Address says where a worker listens and what it accepts.
type Address struct {
	Hello
	Rails []RailAddress // at least one
}

// A RailAddress says where a worker listens on one of its devices.
//
//	protocol (1) | IP address (16) | port of the connection manager (2) | port of the device (2)
type RailAddress struct {
	Protocol verbs.Protocol
	Listener netip.AddrPort
	UDP      uint16
}

// Bytes returns the address as others get it.
func (a *Address) Bytes() []byte {
	b := a.Hello.Bytes()
	for _, r := range a.Rails {
		ip := r.Listener.Addr().As16()
		b = append(append(b, byte(r.Protocol)), ip[:]...)
		b = binary.BigEndian.AppendUint16(b, r.Listener.Port())
		b = binary.BigEndian.AppendUint16(b, r.UDP)
	}
	return b
}

// ParseAddress reads an address.
func ParseAddress(b []byte) (a Address, err error) {
	if a.Hello, err = ParseHello(b); err != nil {
		return a, err
	}
	b = b[helloLen:]
	if n := len(b) / RailLen; n == 0 || n > message.MaxRails || n*RailLen != len(b) {
		return a, fmt.Errorf("%w: %d bytes about devices, expected %d each of 1 to %d", ErrAddress, len(b), RailLen, message.MaxRails)
	}
	for ; len(b) > 0; b = b[RailLen:] {
		ip := netip.AddrFrom16([16]byte(b[1:])).Unmap()
		r := RailAddress{verbs.Protocol(b[0]), netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[17:])), binary.BigEndian.Uint16(b[19:])}
		a.Rails = append(a.Rails, r)
	}
	return a, nil
}
