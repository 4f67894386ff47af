package ib

import (
	"fmt"

	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumOpcode, func(n uint64) string {
		if n > 0xff || Opcode(n).Info() == nil {
			return fmt.Sprintf("%#02x", n)
		}
		return fmt.Sprintf("%v (%#02x)", Opcode(n), n)
	})
	reason.Name(reason.NumTransport, func(n uint64) string { return Transport(n).String() })
	reason.Name(reason.NumSyndrome, func(n uint64) string {
		if s := Syndrome(n); s == NAKSequence || s == NAKInvalidRequest || s == NAKRemoteAccess || s == NAKRemoteOperational || s == NAKInvalidRDRequest {
			return fmt.Sprintf("%v, syndrome %#02x", s, n)
		}
		return fmt.Sprintf("syndrome %#02x (reserved)", n)
	})
}

var transportNames = [...]string{RC: "RC", UC: "UC", RD: "RD", UD: "UD", 4: "CNP", XRC: "XRC"}

// String returns the usual name of a transport's opcodes (IBTA table 38, annex
// A17.9.3).
func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return fmt.Sprintf("transport %d", uint8(t))
}
