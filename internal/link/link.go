// Package link carries batches of packets between the adapter and a network:
// UDP sockets, later raw Ethernet and AF_XDP, and the simulated network of the
// tests. Streams are links of another kind: TCP, for iWARP. A link knows nothing
// of RDMA but the order of bytes that it is given.
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

// A Flow is a path to one peer with one source port. The link makes it, the
// adapter keeps it and names it when it sends.
type Flow struct {
	Src, Dst netip.AddrPort // both ports as they are on the wire
	Handle   int            // the link's own

	// Segments is how many packets of a batch leave as one datagram, which is
	// segmented on its way; 0 is all. Send may lower it, for the batches after
	// the present one.
	Segments int

	// First is the IPv4 identification of the next datagram's first packet. Its
	// other packets count on; with Counts the next datagram begins with one more
	// than this one, otherwise with the same. Send keeps both.
	First  uint16
	Counts bool
}

// Identification is the IPv4 identification, which its ICRC covers, that packet
// i of the next batch leaves with.
func (f *Flow) Identification(i int) uint16 {
	if f.Segments == 0 {
		return f.First + uint16(i)
	}
	id := f.First + uint16(i%f.Segments)
	if f.Counts {
		id += uint16(i / f.Segments)
	}
	return id
}

// A Tx is a batch to one flow: packets of Size bytes each, except that the
// last may be shorter, concatenated in Pieces. The link does not keep the
// slices after Send returns.
type Tx struct {
	Flow     *Flow
	Pieces   [][]byte
	Bytes    int // sum of the lengths of Pieces
	Size     int
	TOS      uint8 // DSCP and ECN; traffic class on IPv6
	HopLimit uint8
}

// An Rx is a batch from one peer: packets of Size bytes each, except that the
// last may be shorter, concatenated in Data, which is the link's and holds
// until the next Receive.
type Rx struct {
	Data     []byte
	Size     int
	Src, Dst netip.AddrPort
	TOS      uint8
	HopLimit uint8

	// Sparse is the caller's: TOS and HopLimit may be 0 for most of the packets
	// that come one at a time, which a link may then receive quicker.
	Sparse bool
}

// ErrClosed is returned by a link that was closed.
var ErrClosed = errors.New("link closed")

// A Link belongs to one lane. Receive, Send and OpenFlow are called by one
// goroutine at a time; Wait by another one beside them, Wake and Close by any.
type Link interface {
	// Local is the address and port that peers send to.
	Local() netip.AddrPort

	// OpenFlow gives the flow to a peer whose source port is chosen by label,
	// a hash of the flow: equal labels give equal ports as long as the flow is
	// open. A link may fold labels to fewer ports than it was asked for.
	OpenFlow(dst netip.AddrPort, label uint32) (*Flow, error)

	// Reply gives the flow of one datagram to a peer that nothing is known of,
	// from the port that peers send to. It opens nothing, and holds until the next
	// Reply.
	Reply(dst netip.AddrPort) (*Flow, error)

	// CloseFlow gives up one use of a flow.
	CloseFlow(*Flow)

	// Send transmits a batch. An error says that none or only a part of it
	// left: packets are lost as a network loses them, and the error tells why
	// (syscall errors unwrapped by errors.As or Is).
	Send(*Tx) error

	// Receive fills rx with the next batch and tells whether there was one; it
	// does not wait.
	Receive(*Rx) (bool, error)

	// Wait blocks until something can be received, Wake is called or d has
	// passed; d < 0 is for ever. A Wake before the Wait makes it return at once.
	Wait(d time.Duration) error

	// Wake ends the present or the next Wait.
	Wake()

	// Join and Leave receive packets to an IP multicast group as well.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error

	// ReceiveBuffer is the usable size of the receive buffer in bytes.
	ReceiveBuffer() int

	Close() error
}
