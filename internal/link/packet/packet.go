// Package packet is the link over AF_PACKET sockets: whole Ethernet frames of one EtherType on
// one interface. It needs the capability CAP_NET_RAW.
//
// It owns the sockets, their receive rings and filters, the interface's multicast membership
// and the look-up of neighbours. It writes no header: the pieces of a batch begin with the
// Ethernet header that the frame (package frame/rocev1) wrote, and received data begins with
// one. It never parses frames; the filter program that the kernel runs comes from the frame as
// well.
//
// Ethernet does not return a frame to the host that sent it. As IP does, the link therefore
// sends frames for an address of this host through the loopback interface, and receives from
// there, so that devices of two processes can use one interface.
//
// Frames are received in a ring that the kernel shares (PACKET_RX_RING), where polling for a
// frame needs no system call. They are sent by sendmmsg, which took less processor time than a
// transmit ring.
package packet

import "errors"

// A Config describes the links to open.
type Config struct {
	Interface string // name of the network interface
	EtherType uint16 // of received frames
	MaxFrame  int    // size in bytes of the longest frame, with its Ethernet header

	// Claim is a name that only one link in this network namespace can hold. An empty string
	// claims nothing.
	Claim string

	// ReceiveBuffer and SendBuffer are the wanted sizes of the receive ring and of the
	// socket's send buffer in bytes. 0 means 4 MiB.
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
	// ErrRight is wrapped if the process lacks CAP_NET_RAW.
	ErrRight = errors.New("raw Ethernet frames need the capability CAP_NET_RAW, which root has " +
		"(setcap cap_net_raw+ep gives it to a program)")

	// ErrInUse is wrapped if another link holds the claim.
	ErrInUse = errors.New("in use by another device of this machine")

	// ErrInterface is wrapped if the interface carries no Ethernet frames.
	ErrInterface = errors.New("not an Ethernet interface")

	// ErrFlow is returned for a flow of another link.
	ErrFlow = errors.New("flow not open on this link")

	// ErrBatch is returned for a batch that exceeds the link's limits.
	ErrBatch = errors.New("batch out of limits")

	// ErrFilter is wrapped if a filter is too long for the kernel.
	ErrFilter = errors.New("packet filter too long")
)
