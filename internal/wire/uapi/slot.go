package uapi

import "net/netip"

// A Slot is the answer to OpSlot, behind the reply in JSON: a share of a device's address
// for an adapter in the program. Data of the request is the name of the device's file, and
// Arg[0] is Reasons: EPROTO refuses programs of another build.
// Descriptors of the reply are those by which the adapter joins the address (of RoCE v2 the
// receiving socket and what keeps the address's other sockets open, of RoCE v1 the claim of the
// GID), then the memory of its counters and its flight recorder (recorder.Slot), and a socket whose end gives the
// slot back. The server takes the slot back as well when the process ends that has asked for it.
type Slot struct {
	Protocol  uint8          // as verbs.Protocol numbers it
	Addr      netip.AddrPort // with the zone of a link-local address
	Interface string
	GUID      uint64
	MTU       int // active MTU in bytes

	// The program's queue pairs are those of lane First of Of.
	First, Of int

	// Key proves to other programs of the address that a packet comes from one of them.
	Key [16]byte

	// Relayed tells a program of an iWARP device with TLS that the server makes its connections.
	Relayed bool `json:",omitempty"`

	// KeepReasons is that of the server's device, verbs.Config.KeepReasons.
	KeepReasons bool `json:",omitempty"`

	// Faults is how many bytes the rules of faults of the server's device have, as JSON. They are at the end
	// of the memory.
	Faults int `json:",omitempty"`

	// FabricDir has the socket of a port's fabric. FabricSecret is that of one on another host.
	FabricDir    string `json:",omitempty"`
	FabricSecret []byte `json:",omitempty"`

	// EthernetPort names the port of an Ethernet fabric and its address, as package attach takes it. It is
	// empty for other devices.
	EthernetPort string `json:",omitempty"`

	// Capture is the file to which the program's device writes its packets, "" for none. CaptureID
	// is its device and inode.
	Capture   string
	CaptureID [2]uint64

	SameHost    string // mode of the server's device, as verbs.SameHost has it
	SameHostDir string // directory in which it is published; empty for none
}

// How many descriptors come with a Slot: at least the memory of its counters and
// the socket whose end gives it back, at most those of two sockets as well.
const (
	MinSlotDescriptors = 2
	MaxSlotDescriptors = 4
)

// HelloLooks is the second argument of OpHello from a process that leads no program to the server.
const HelloLooks = 1

// NotShared ends the description of a device of which programs get no Slot, in the answer to
// OpHello.
const NotShared = ", not shared)"
