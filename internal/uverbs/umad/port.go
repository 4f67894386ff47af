//go:build linux

package umad

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Port is a port with management queue pairs: 1, the general services interface, and on
// InfiniBand 0, the subnet management interface.
type Port interface {
	// Device is the name of the port's device, and Number the port's there, from 1 on.
	Device() string
	Number() int

	// SMI reports whether the port has queue pair 0. Only such a port has a file issmN.
	SMI() bool

	// Send sends a datagram from queue pair m.QPN. It takes no reference to m. A datagram
	// that is lost on the way is no error.
	Send(m *MAD) error

	// Handle sets who gets the datagrams that arrive and that the port does not answer
	// itself; nil drops them. The port may hold locks when it calls h, but none that Send
	// takes and another caller of h may hold while it waits. It counts what h drops.
	Handle(h Handler)

	// SetSM sets or clears the bit IsSM of the port's capabilities.
	SetSM(on bool) error
}

// A Handler gets a datagram, which is the caller's again when it returns. It reports whether
// an agent took the datagram, or why it was dropped. It neither blocks nor calls the port.
type Handler func(m *MAD) (taken bool, dropped reason.Detail)

// A MAD is a management datagram with where it goes, or where it came from.
type MAD struct {
	QPN     uint32 // of this port: 0 or 1
	PeerQPN uint32
	Peer    Address
	Data    [mad.Len]byte
}

// An Address is the peer's, as in an address handle.
type Address struct {
	LID          uint16
	SL           uint8
	PathBits     uint8 // of this port's LID
	PKeyIndex    uint16
	Global       bool // has a GRH, and the fields that follow
	GIDIndex     uint8
	HopLimit     uint8
	TrafficClass uint8
	GID          [16]byte
	FlowLabel    uint32
}
