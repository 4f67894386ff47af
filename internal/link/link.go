// Package link says what a link must do for the adapter. A link moves bytes: it
// writes no header, reads none and knows nothing of RDMA.
//
// # The contracts
//
//   - [Waiter] is what a lane sleeps on. Every link is one. A [Watcher] lets the lane sleep
//     on one more descriptor.
//   - [Packets] is a link that carries packets, in batches of equal size: UDP sockets
//     (link/udp), Ethernet frames (link/packet), the simulated network
//     (internal/simnet). [Capabilities] says what it is good at, and what its users
//     must be prepared for.
//   - [Streams] is a link that connects peers by byte streams: TCP (link/tcp), for iWARP.
//
// What surrounds a packet (addresses, network headers, CRCs) is a frame's business:
// package frame joins an encapsulation to a link of its kind, and adds to Packets what
// it needs of it, such as the sockets that frame/rocev2 sends from.
//
// # How to write a link of packets
//
// The example of [Packets] is a whole one, in memory. Keep these rules:
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
)

// MaxBatch is the largest number of bytes in one batch of packets: what fits
// behind the UDP header of one IPv4 datagram, which segmentation offload
// treats a batch as.
const MaxBatch = 61 << 10

// MaxPackets is the largest number of packets in one batch.
const MaxPackets = 128

// ErrClosed is returned by a link that was closed.
var ErrClosed = errors.New("link closed")

// A Waiter is what a lane sleeps on until its link has something for it.
type Waiter interface {
	// Wait blocks until something can be received, Wake is called or d has
	// passed; d < 0 means no limit. A Wake before the Wait makes it return at once.
	Wait(d time.Duration) error

	// Wake ends the present or the next Wait. Any goroutine may call it.
	Wake()

	// Close ends every call on the link, present and later ones, with ErrClosed.
	Close() error
}

// A Watcher is a link whose Wait also ends when a descriptor is readable that is not the
// link's own. Links of packets on Linux are.
type Watcher interface {
	// Watch names the descriptor, which stays open until the link is closed. It is called
	// before the link is used.
	Watch(fd int)
}

// Packets is a link that carries packets.
type Packets interface {
	Waiter

	// Capabilities describes the link. The answer does not change.
	Capabilities() Capabilities

	// Send transmits a batch. An error says that none or only a part of it
	// left: packets are lost as a network loses them, and the error tells why
	// (syscall errors unwrapped by errors.As or Is).
	Send(*Tx) error

	// Receive fills rx with the next batch and reports whether there was one; it
	// does not wait.
	Receive(*Rx) (bool, error)
}

// A Limited is a link of packets that loses nothing and has room for a limited number of
// packets of each service level. What Send takes without room is lost.
type Limited interface {
	Packets

	// Room reports whether Send takes several batches of a service level. If not, Wait ends
	// when it does.
	Room(serviceLevel uint8) bool
}

// Capabilities are the properties of a link of packets.
type Capabilities struct {
	// Packets and Bytes bound one batch: at most MaxPackets and MaxBatch. A link with
	// a call for each packet has Packets 1.
	Packets, Bytes int

	// Frame is the length in bytes of the longest packet, the frame's headers
	// included; 0 if nothing but Bytes bounds it.
	Frame int

	// ReceiveBuffer is the usable size of the receive buffer in bytes: what may be
	// under way to this link at a time.
	ReceiveBuffer int

	// Segmentation says that a batch goes down the system as one unit, so that large
	// batches cost little more than single packets.
	Segmentation bool

	// Lossless says that the link loses, reorders and duplicates nothing as long as
	// the peer keeps receiving.
	Lossless bool
}

// A Flow is the link's own name of a path to one peer. Links that find the way by
// what stands in the packets have none.
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

	// Queue is the number of the queue pair that the first packet is for. Batches for the same
	// one reach the same socket of the peer.
	Queue uint32

	// For links of sockets, whose system writes the network header. Packets of other
	// links begin with it.
	Flow     *Flow
	TOS      uint8 // DSCP and ECN; traffic class on IPv6
	HopLimit uint8 // 0 is the system's default
}

// An Rx is a batch from one peer: packets of Size bytes each, except that the
// last may be shorter, concatenated in Data, which is the link's and valid
// until the next Receive. Their frame headers differ in nothing but lengths.
type Rx struct {
	Data []byte
	Size int

	// HandedOver says that another process has received the packet and passed it on.
	HandedOver bool

	// What a link of sockets knows of the network header that its system removed.
	// Zero where Data holds the headers.
	Src, Dst netip.AddrPort
	TOS      uint8
	HopLimit uint8

	// Sparse is set by the caller: TOS and HopLimit may be 0 for most of the packets
	// that come one at a time, which lets a link receive them faster.
	Sparse bool
}
