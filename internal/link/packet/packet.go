// Package packet is the link over AF_PACKET sockets: whole Ethernet frames of one
// EtherType on one interface. It needs the capability CAP_NET_RAW.
//
// It owns the sockets, their receive rings and filters, the interface's multicast
// membership and the look-up of neighbours. It writes no header: the pieces of a batch
// begin with the Ethernet header that the frame (package frame/rocev1) wrote, and what
// it receives begins with one. It never looks into frames; the filter that the kernel
// runs on them is the frame's as well.
//
// Ethernet does not bring a frame back to the host that sent it. As IP does, the link
// therefore sends what is for an address of this host through the loopback interface,
// and receives from there: two devices of two processes can be on one interface.
//
// Frames are received in a ring that the kernel shares (PACKET_RX_RING), where looking
// for a frame costs no system call. They are sent by sendmmsg, which took less of the
// processor than a transmit ring.
package packet

import "errors"

// A Config says what to open.
type Config struct {
	Interface string // name of the network interface
	EtherType uint16 // of the frames that are received
	MaxFrame  int    // bytes of the longest frame, with its Ethernet header

	// Claim is the name of what only one link on this machine may have open; empty
	// claims nothing.
	Claim string

	// ReceiveBuffer and SendBuffer are the wanted sizes of the receive ring and of the
	// socket's send buffer in bytes; 0 means 4 MiB.
	ReceiveBuffer, SendBuffer int
}

const defaultBuffer = 4 << 20

func (c *Config) setDefaults() {
	if c.ReceiveBuffer <= 0 {
		c.ReceiveBuffer = defaultBuffer
	}
	if c.SendBuffer <= 0 {
		c.SendBuffer = defaultBuffer
	}
}

// Errors of a link.
var (
	// ErrRight is wrapped where the process lacks CAP_NET_RAW.
	ErrRight = errors.New("raw Ethernet frames need the capability CAP_NET_RAW, which root has " +
		"(setcap cap_net_raw+ep gives it to a program)")

	// ErrInUse is wrapped where another link has the claim.
	ErrInUse = errors.New("in use by another device of this machine")

	// ErrInterface is wrapped where the interface carries no Ethernet frames.
	ErrInterface = errors.New("not an Ethernet interface")

	// ErrFlow is returned for a flow that is not of this link.
	ErrFlow = errors.New("flow not open on this link")

	// ErrBatch is returned for a batch that the link's limits do not allow.
	ErrBatch = errors.New("batch out of limits")

	// ErrFilter is wrapped where a filter is too long for the kernel.
	ErrFilter = errors.New("packet filter too long")
)
