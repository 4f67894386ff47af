// Package frame says how transport packets are wrapped and protected on a network: which
// addresses their headers have, what stands in front of the BTH, and how the ICRC begins.
// An implementation joins one encapsulation to one lane's link of the matching kind:
// frame/rocev2 wraps packets in UDP over IP, frame/rocev1 in Ethernet frames with a GRH.
//
// A frame moves no bytes, which is its link's business. Behind the network headers it
// reads the destination queue pair number, which steers packets to lanes, and computes the
// ICRC; everything else there is the transports' business. To the adapter
// it is the only part of the program that knows addresses: the adapter compares endpoints
// and looks into none.
//
// # What is called how often
//
// The methods of [Network] are called for a flow, for a batch or for a datagram's
// destination. What is done for each packet are methods of [Flow] and [Source], which are
// plain structs: they copy a header template, continue the ICRC and check it, whatever
// the encapsulation.
package frame

import (
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A Network is an encapsulation on the link of one lane. Its methods follow the link's
// rule of one goroutine at a time; Local and Kind may be called by any.
type Network interface {
	// Link carries the frames.
	Link() link.Packets

	// Kind names the encapsulation. Devices of one process reach each other in memory
	// only if theirs are the same.
	Kind() string

	// Local is where peers send to.
	Local() qp.Endpoint

	// Standard reports whether Local has the number that every adapter of this kind
	// has unless its user chose another. Then peers need not be told of it.
	Standard() bool

	// GroupGID returns the GID of an IP multicast group, as an address.
	GroupGID(ip netip.Addr) netip.Addr

	// Key tells flows apart: packets between queue pairs whose keys are equal share a
	// flow, and so a batch. It is called for each datagram.
	Key(path *qp.Path, local, remote uint32) Key

	// Open makes the flow of a key, or counts one more use of it. It resolves the
	// peer's link-layer address where the network has such. Entropy is an unpredictable
	// number: a frame that may choose a source address from several uses it, so that an
	// attacker who sees no packet has to guess the address.
	Open(path *qp.Path, entropy uint32) (*Flow, error)

	// Reply returns the flow of one answer to a peer that nothing is known of. It holds
	// no resources, and is valid until the next Reply.
	Reply(path *qp.Path) (*Flow, error)

	// Close ends one use of a flow.
	Close(*Flow)

	// Classify writes a class into the flow's header, for the packets that follow.
	Classify(*Flow, Class)

	// Arrive reads the headers of a received batch and returns its source, or nil and
	// the reason to refuse all of it. The source is valid until the next Arrive.
	Arrive(*link.Rx) (*Source, reason.Detail)

	// Join and Leave begin and end receiving packets to a multicast group.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error

	// Capabilities says what else the network can do. The answer never changes.
	Capabilities() Capabilities

	// PutGRH writes the 40 bytes that a datagram's receive buffer begins with
	// (IBTA 11.4.1.2). Length counts the packet from BTH to ICRC.
	PutGRH(b []byte, src, dst qp.Endpoint, c Class, length int)
}

// Capabilities are what a network can do. A field is nil if it cannot.
type Capabilities struct {
	Sharer       Sharer
	Resolver     Resolver
	Offline      Offline
	Configurable Configurable
}

// A Sharer is a Network whose endpoint devices in other processes may share.
type Sharer interface {
	// HandOver passes a packet, from BTH to ICRC, on to the device that has its queue pair.
	// It may be lost.
	HandOver(packet []byte, src qp.Endpoint, c Class) error
}

// A Resolver is a Network that may have to ask the network for a peer's link-layer
// address. The adapter resolves a path before it takes the lane to open a flow, so that
// a lane does not wait for the answer.
type Resolver interface {
	// Resolve looks for the address and waits for the answer. Any goroutine may call
	// it.
	Resolve(path *qp.Path) error
}

// An Offline is a Network whose flows have headers also where no network leads to the peer.
// Their packets travel in memory, where traces show the headers.
type Offline interface {
	// Offline returns the flow of a path, which is never given to Close.
	Offline(path *qp.Path) *Flow
}

// A Configurable is a Network whose port a subnet manager configures while it is open.
type Configurable interface {
	// Configure takes the port's addresses, which the flows that are open follow. No batch is
	// being built.
	Configure(p *Port)
}

// A Port is the addresses of a port of an InfiniBand subnet.
type Port struct {
	LID  uint16 // the first of 1<<LMC; 0 until a subnet manager has configured the port
	LMC  uint8
	GIDs []netip.Addr
}

// A Key is what the packets of one flow have in common.
type Key struct {
	Dst  qp.Endpoint
	Slot uint32 // one of several paths to it, in the low 28 bits
	From uint16 // which of the port's addresses the packets are from, where it has several
}

// A Class is how a network is to treat a packet. No ICRC covers it.
type Class struct {
	TrafficClass uint8 // DSCP and ECN
	HopLimit     uint8
	ServiceLevel uint8 // 0 to 15: the VLAN's priority, InfiniBand's SL
}
