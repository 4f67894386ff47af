package link

import "encoding/binary"

// LaneOf is which of n lanes the queue pair of a number belongs to. Links that
// share an address and a port are steered by it.
func LaneOf(qpn uint32, n int) int { return int(qpn % uint32(n)) }

// What steers a packet to its lane: the destination queue pair, the last three
// of four bytes at this place of the BTH (IBTA 9.2).
const (
	LaneOffset = 4
	LaneMask   = 0xffffff
)

// PacketLane is the lane that a packet is for, the first for one that is too
// short to tell.
func PacketLane(packet []byte, n int) int {
	if len(packet) < LaneOffset+4 {
		return 0
	}
	return LaneOf(binary.BigEndian.Uint32(packet[LaneOffset:])&LaneMask, n)
}
