package frame

import (
	"encoding/binary"

	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A Flow is the sending end of a path to one peer.
type Flow struct {
	Link        *link.Flow // for link.Tx; nil if the link needs none
	Local, Peer qp.Endpoint
	CRC         ib.Prefix
	Native      bool // the header begins with InfiniBand's LRH

	// Numbers says how packets are numbered on their way; nil if they are not.
	Numbers *link.Numbering

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
