// Package steering divides the queue pair numbers of an endpoint among the lanes of a device and the
// devices of several programs. It holds the rule, in Go and as a program of the kernel's packet filter,
// and what is lent to whom. It moves no packet.
package steering

import (
	"encoding/binary"
	"sync"

	"golang.org/x/net/bpf"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// managementQPN is the highest number of the queue pairs for management, 0 and 1. They
// belong to lane 0, whatever the number of lanes.
const managementQPN = 1

// Draw leaves out the numbers up to highestReserved, and that of multicast (IBTA 10.5).
const (
	highestReserved = 0xff
	multicastQPN    = 0xffffff
)

// LaneOf returns which of n lanes the queue pair with a number belongs to. Packets are
// steered to the lanes' networks, which share an endpoint, by it.
func LaneOf(qpn uint32, n int) int {
	if qpn <= managementQPN {
		return 0
	}
	return int(qpn % uint32(n))
}

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
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: managementQPN, SkipTrue: 1},
		bpf.LoadConstant{Dst: bpf.RegA, Val: 0},
		bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(n)},
	}
}

// A Share is what a device has of the lanes of its endpoint: Lanes of Of, from First on.
// The other lanes belong to devices of other processes.
type Share struct{ First, Lanes, Of int }

// Whole returns the share of a device that has its endpoint to itself.
func Whole(lanes int) Share { return Share{Lanes: lanes, Of: lanes} }

// Lane returns the lane of the device that the queue pair with a number belongs to, and
// false if it is another device's.
func (s Share) Lane(qpn uint32) (lane int, ok bool) {
	lane = LaneOf(qpn, s.Of) - s.First
	return lane, uint(lane) < uint(s.Lanes)
}

// Draw returns a free queue pair number of a lane, made from random numbers. The
// lane has used queue pairs.
func (s Share) Draw(lane, used int, free func(qpn uint32) bool, random func() uint32) (uint32, error) {
	// A sixteenth of the numbers stays free, so that few draws find one.
	if limit := (1 << 24) / s.Of / 16 * 15; used >= limit {
		return 0, reason.Detail{Reason: reason.QPNumbers, Expected: uint64(limit), Found: uint64(used)}.Err()
	}
	for {
		n := random() >> 8
		n += uint32(s.First+lane) - n%uint32(s.Of)
		if n > highestReserved && n < multicastQPN && free(n) {
			return n, nil
		}
	}
}

// Valid reports whether the share is one.
func (s Share) Valid() bool {
	return s.First >= 0 && s.Lanes >= 1 && s.First+s.Lanes <= s.Of
}

// A Lending lends the lanes of an endpoint that are not its owner's to other programs.
type Lending struct {
	first int

	mu    sync.Mutex
	taken []bool // from first on
	next  int    // index in taken behind the lane that TakeNext lent last
}

// NewLending returns a Lending of the lanes from first to of.
func NewLending(first, of int) *Lending { return &Lending{first: first, taken: make([]bool, of-first)} }

// Take lends the lowest free lane until Give.
func (x *Lending) Take() (lane int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.take(0)
}

// TakeNext lends a lane as Take does, but not one that was just freed while others are free.
func (x *Lending) TakeNext() (lane int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if lane, err = x.take(x.next); err == nil {
		x.next = lane - x.first + 1
	}
	return lane, err
}

// take lends the first free lane from an index on.
func (x *Lending) take(from int) (lane int, err error) {
	for n := range x.taken {
		if i := (from + n) % len(x.taken); !x.taken[i] {
			x.taken[i] = true
			return x.first + i, nil
		}
	}
	n := uint64(len(x.taken))
	return 0, reason.Detail{Reason: reason.SlotsTaken, Expected: n, Found: n}.Err()
}

// Taken returns how many lanes are lent.
func (x *Lending) Taken() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, taken := range x.taken {
		if taken {
			n++
		}
	}
	return n
}

// Give frees a lane.
func (x *Lending) Give(lane int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken[lane-x.first] = false
}
