package frame

import (
	"encoding/binary"

	"golang.org/x/net/bpf"

	"softrdma/internal/wire/ib"
)

// LaneOf returns which of n lanes the queue pair with a number belongs to. Packets are
// steered to the lanes' networks, which share an endpoint, by it.
func LaneOf(qpn uint32, n int) int { return int(qpn % uint32(n)) }

// PacketLane returns the lane of a packet, given from its BTH; the first for one that is
// too short to tell.
func PacketLane(packet []byte, n int) int {
	if len(packet) < ib.DestQPNOffset+4 {
		return 0
	}
	return LaneOf(binary.BigEndian.Uint32(packet[ib.DestQPNOffset:])&ib.DestQPNMask, n)
}

// LoadLane returns what PacketLane does as a program of the kernel's packet filter: it
// leaves the lane of a packet whose BTH begins at bth in the accumulator. Loading beyond
// the end of a packet ends the program with 0.
func LoadLane(bth uint32, n int) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: bth + ib.DestQPNOffset, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ib.DestQPNMask},
		bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(n)},
	}
}
