package hostmem

import (
	"net/netip"

	"softrdma/internal/memory"
)

// A Channel connects a device to another one on the same host.
type Channel struct {
	Peer  netip.AddrPort // address of the peer in packets
	Out   *Area          // from us
	In    *Area          // to us
	Lanes int            // of the peer
	First int            // its first lane among those of its address
	Of    int            // number of lanes of its address; 0 if the peer has them all
	Owner any            // the owner of the bells that the peer rings
	Far   Far
}

// A Far provides the operations of a Channel that need more than shared memory.
type Far interface {
	// Ring rings the bell of a lane of the peer.
	Ring(lane int)

	// Segment returns the memory of a segment that the peer has offered, or nil. It may be
	// called while others are offered and withdrawn.
	Segment(id uint32) []byte

	// Offer begins to offer a segment to the peer. It does not wait.
	Offer(s *memory.Segment)

	// Offered reports whether the peer has mapped a segment.
	Offered(id uint32) bool

	// Withdraw asks the peer to unmap a segment. It does not wait.
	Withdraw(id uint32)

	// Close ends the channel without waiting for the peer. It may be called again.
	Close()
}
