package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of inline messages, bytes.
const (
	DefaultInline = 4096 // what Linux uses; a peer without private data has 1024 (RFC 8166 3.3.2)
	BareInline    = 1024 // of a peer that sends no private data
	MaxInline     = 256 << 10
)

// PrivateLen is the length of the private data in bytes.
const PrivateLen = 8

const (
	privateMagic   = 0xf6ab0e18 // RFC 8797 4.1
	privateVersion = 1
	privateInv     = 1 // flag R: remote invalidation
)

// ErrPrivate says that private data is not that of RFC 8797.
var ErrPrivate = errors.New("private data is not that of RPC-over-RDMA")

// Private is the private data of a connection (RFC 8797 4.1).
type Private struct {
	RemoteInvalidation bool // the sender accepts SENDs that invalidate its keys
	Send, Receive      int  // sizes of the sender's inline buffers: multiples of 1024, at most MaxInline
}

// Append appends the private data to b.
func (p Private) Append(b []byte) []byte {
	flags := byte(0)
	if p.RemoteInvalidation {
		flags = privateInv
	}
	b = binary.BigEndian.AppendUint32(b, privateMagic)
	return append(b, privateVersion, flags, byte(p.Send>>10-1), byte(p.Receive>>10-1))
}

// ParsePrivate parses private data, which may be padded. A peer without it has the values of
// RFC 8166: no remote invalidation, BareInline bytes.
func ParsePrivate(b []byte) (Private, error) {
	bare := Private{Send: BareInline, Receive: BareInline}
	if len(b) < PrivateLen {
		return bare, fmt.Errorf("%w: expected %d bytes, found %d", ErrPrivate, PrivateLen, len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != privateMagic {
		return bare, fmt.Errorf("%w: expected the word %#x, found %#x", ErrPrivate, privateMagic, m)
	}
	if b[4] != privateVersion {
		return bare, fmt.Errorf("%w: expected version %d, found %d", ErrPrivate, privateVersion, b[4])
	}
	return Private{b[5]&privateInv != 0, (int(b[6]) + 1) << 10, (int(b[7]) + 1) << 10}, nil
}
