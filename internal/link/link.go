// Package link says what a link must do for the adapter. A link moves bytes: it writes no
// header, reads none and knows nothing of RDMA.
//
// # The contracts
//
//   - [Waiter] is what a lane sleeps on. Every link is one. A [Watcher] lets the lane sleep
//     on one more descriptor.
//   - [Packets] is a link that carries packets, in batches of equal size: UDP sockets
//     (link/udp), Ethernet frames (link/packet), the simulated network
//     (internal/simnet). [Capabilities] describes its limits and guarantees.
//   - [Streams] is a link that connects peers by byte streams: TCP (link/tcp), for iWARP.
//   - [Datagrams] and [Frames] are links of packets with the methods that RoCE v2 and v1 need,
//     such as those for the sockets that datagrams are sent from.
//
// Addresses, network headers and CRCs around a packet belong to its frame: package frame joins
// an encapsulation to a link of its kind.
//
// # How to write a link of packets
//
// The example of [Packets] is a complete link in memory. Keep these rules:
//
//   - A link belongs to one lane. One goroutine at a time calls Send and Receive.
//     Another one may be in Wait meanwhile. Any goroutine may call Wake and Close.
//   - Send keeps nothing of the batch after it returns. What Receive delivers is valid
//     until the next Receive. Neither allocates, and neither waits for a peer.
//   - A link may lose, duplicate and reorder packets, unless its Capabilities say
//     otherwise, but it never changes their order within a batch on purpose.
//   - A Wake that comes before the Wait makes that Wait return at once.
//   - After Close every call returns ErrClosed.
package link

import (
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/reason"
)

// MaxBatch is the largest number of bytes in one batch of packets: the payload of one IPv4 UDP
// datagram, because segmentation offload sends a batch as one datagram.
const MaxBatch = 61 << 10

// MaxPackets is the largest number of packets in one batch.
const MaxPackets = 128

// ErrClosed is returned by a link that was closed.
var ErrClosed = errors.New("link closed")

// A Waiter lets a lane sleep until its link has an event.
type Waiter interface {
	// Wait blocks until something can be received, Wake is called or d has passed; d < 0 means
	// no limit. A Wake before the Wait makes it return at once.
	Wait(d time.Duration) error

	// Wake ends the current or the next Wait. Any goroutine may call it.
	Wake()

	// Close makes every call on the link, current and later ones, end with ErrClosed.
	Close() error
}

// A Watcher is a link whose Wait also ends when another descriptor becomes readable. Links of
// packets on Linux are Watchers.
type Watcher interface {
	// Watch sets that descriptor, which must stay open until the link is closed. It is called
	// before the link is used.
	Watch(fd int)
}

// Packets is a link that carries packets.
type Packets interface {
	Waiter

	// Capabilities describes the link. The result never changes.
	Capabilities() Capabilities

	// Send transmits a batch. An error means that some or all packets were lost, as on a
	// network, and says why (errors.As and errors.Is find the system error).
	Send(*Tx) error

	// Receive fills rx with the next batch and reports whether there was one. It never waits.
	Receive(*Rx) (bool, error)
}

// A Limited is a link of packets that has room for a limited number of packets of each of 16 levels,
// and tells when it has. Packets sent without room are lost.
type Limited interface {
	// Level returns the level of packets with a TOS and a service level.
	Level(tos, serviceLevel uint8) uint8

	// Room reports whether there is room for several batches of a level. If not, Wait ends when
	// there is.
	Room(level uint8) bool
}

// Capabilities are the properties of a link of packets.
type Capabilities struct {
	// Packets and Bytes limit one batch: at most MaxPackets and MaxBatch. A link that sends
	// each packet with a separate call has Packets 1.
	Packets, Bytes int

	// Overhead is how many bytes the link adds to each packet. They count towards Bytes.
	Overhead int

	// Frame is the length in bytes of the longest packet, including the frame's headers. It is
	// 0 if only Bytes limits it.
	Frame int

	// ReceiveBuffer is the usable size of the receive buffer in bytes, which bounds how much
	// may be in flight to this link.
	ReceiveBuffer int

	// Segmentation means that the system takes a batch as one unit, so that large batches cost
	// little more than single packets.
	Segmentation bool

	// Lossless means that the link does not lose, reorder or duplicate packets as long as the
	// peer keeps receiving.
	Lossless bool

	// What else the link can do. A field is nil if it cannot.
	Watcher    Watcher
	Limited    Limited
	Reporter   Reporter
	Sharer     Sharer
	Introducer Introducer
	Translator Translator
	Fragmenter Fragmenter
	Returner   Returner
}

// A Flow is a link's handle of a path to one peer. Links that route by packet headers have no
// flows.
type Flow struct {
	Handle int
}

// A Tx is a batch to send: packets of Size bytes each, except that the last may be
// shorter, concatenated in Pieces. The link does not keep the slices after Send
// returns.
type Tx struct {
	Pieces [][]byte
	Bytes  int // sum of the lengths of Pieces
	Size   int

	// Queue is the queue pair number of the first packet. Batches with the same number reach
	// the same socket of the peer.
	Queue uint32

	// For socket links, where the system writes the network header. Packets of other links
	// begin with it.
	Flow     *Flow
	TOS      uint8 // DSCP and ECN; traffic class on IPv6
	HopLimit uint8 // 0 means the system's default
}

// An Rx is a batch from one peer: packets of Size bytes each, except that the last may be
// shorter, concatenated in Data, which belongs to the link and is valid until the next
// Receive. Their frame headers differ only in lengths.
type Rx struct {
	Data []byte
	Size int

	// HandedOver means that another process received the packet and passed it on.
	HandedOver bool

	// The fields of the network header that the system removed, for socket links. They are
	// zero if Data contains the headers.
	Src, Dst netip.AddrPort
	TOS      uint8
	HopLimit uint8

	// Telemetry is what the switches of the path said of the links by which the packets left them, as
	// package wire/ib/own has hops, and valid as long as Data. Links that carry none leave it alone.
	Telemetry []byte

	// Refused is why the link refuses a packet, of which Data has nothing. Links that check nothing leave
	// it alone.
	Refused reason.Detail

	// Intact means that the link has proved that the packets are as the peer sent them, by more than their own
	// CRC does. Links that prove nothing leave it alone.
	Intact bool

	// Sparse is set by the caller: TOS and HopLimit may be 0 for most single packets, which
	// lets a link receive them faster.
	Sparse bool
}
