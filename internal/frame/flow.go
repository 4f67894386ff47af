package frame

import (
	"encoding/binary"

	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A Flow is the sending end of a path to one peer.
type Flow struct {
	Link        *link.Flow // for link.Tx; nil where the link needs none
	Local, Peer qp.Endpoint
	CRC         ib.Prefix
	Native      bool // the header begins with InfiniBand's LRH

	// Numbers says how packets are numbered on their way; nil where they are not.
	Numbers *Numbering

	// Class is what the header has now.
	Class Class

	header  []byte
	lengths []ib.Length
	length  int
}

// SetHeader makes b the template of what stands in front of each packet's BTH; lengths
// are its fields that depend on the packet. Frames of links that write the headers
// themselves need none.
func (f *Flow) SetHeader(b []byte, lengths ...ib.Length) {
	f.header, f.lengths, f.length = b, lengths, -1
}

// Header returns what stands in front of a packet with length bytes from BTH to ICRC.
// It is valid until the next call.
func (f *Flow) Header(length int) []byte {
	if length != f.length {
		f.length = length
		for i := range f.lengths {
			l := &f.lengths[i]
			binary.BigEndian.PutUint16(f.header[l.At:], l.Value(length))
		}
	}
	return f.header
}

// HeaderLen is the length of that.
func (f *Flow) HeaderLen() int { return len(f.header) }

// ID is the number that packet i of the next batch leaves with.
func (f *Flow) ID(i int) uint16 {
	if f.Numbers == nil {
		return 0
	}
	return f.Numbers.Identification(i)
}

// A Numbering is how a system numbers the packets that it sends, in a field that the
// ICRC covers: the identification of IPv4. The link keeps it up to date.
type Numbering struct {
	// Segments is how many packets of a batch leave as one datagram, which is
	// segmented on its way; 0 is all. Send may lower it, for the batches after
	// the present one.
	Segments int

	// First is the number of the next datagram's first packet. Its other packets
	// count up from it. The next datagram begins with one more than this one if
	// Counts, otherwise with the same number.
	First  uint16
	Counts bool
}

// Identification is the number that packet i of the next batch leaves with.
func (n *Numbering) Identification(i int) uint16 {
	if n.Segments == 0 {
		return n.First + uint16(i)
	}
	id := n.First + uint16(i%n.Segments)
	if n.Counts {
		id += uint16(i / n.Segments)
	}
	return id
}
