package uapi

import "net/netip"

// A Slot is the answer to OpSlot, behind the reply in JSON: a share of a device's address
// for an adapter in the program. Data of the request is the name of the device's file, and
// Arg[0] is Reasons: EPROTO refuses programs of another build.
// Descriptors of the reply are the receiving socket, what keeps the address's other
// sockets open, and a socket whose end gives the slot back. The server takes the slot back as
// well when the process ends that has asked for it.
type Slot struct {
	Addr      netip.AddrPort // with the zone of a link-local address
	Interface string
	GUID      uint64
	MTU       int // active MTU in bytes

	// The program's queue pairs are those of lane First of Of.
	First, Of int

	// Key proves to other programs of the address that a packet comes from one of them.
	Key [16]byte

	// Capture is the file to which the program's device writes its packets, "" for none. CaptureID
	// is its device and inode.
	Capture   string
	CaptureID [2]uint64

	SameHost    string // mode of the server's device, as verbs.SameHost has it
	SameHostDir string // directory in which it is published; empty for none
}

// SlotDescriptors is how many descriptors come with a Slot: those of its sockets, the memory
// of its counters (trace.Counters), and the socket whose end gives it back.
const SlotDescriptors = 4
