package rocev1

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"

	"softrdma/internal/steering"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// Answers of a filter: how much of the frame to receive.
const (
	whole = 1 << 20
	drop  = 0
)

// filter returns the program that takes the frames of this lane: those to the device's
// GID that are for the lane's queue pairs, and those to the lane's groups.
func (n *Network) filter() []bpf.Instruction {
	program := match(n.gid, n.steer())
	for _, g := range n.groups {
		program = append(program, match(g, []bpf.Instruction{bpf.RetConstant{Val: whole}})...)
	}
	return append(program, bpf.RetConstant{Val: drop})
}

// steer returns whether a frame is for the lane, by its destination queue pair.
func (n *Network) steer() []bpf.Instruction {
	if n.lanes == 1 {
		return []bpf.Instruction{bpf.RetConstant{Val: whole}}
	}
	return append(steering.LoadLane(ethernet.HeaderLen+ib.GRHLen, n.lanes),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(n.lane), SkipTrue: 1},
		bpf.RetConstant{Val: drop},
		bpf.RetConstant{Val: whole},
	)
}

// match runs then for frames to a GID, and skips it for others.
func match(gid netip.Addr, then []bpf.Instruction) (program []bpf.Instruction) {
	const words = 4
	b := gid.As16()
	for i := range words {
		left := 2*(words-1-i) + len(then)
		program = append(program,
			bpf.LoadAbsolute{Off: uint32(ethernet.HeaderLen + dgidAt + 4*i), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(b[4*i:]), SkipTrue: uint8(left)})
	}
	return append(program, then...)
}
