package port

import (
	"math/bits"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

const (
	tableLen    = 64
	noHighLimit = 255
	highUnit    = 4096 // bytes
)

// An arbiter chooses the lane of the next packet (IBTA 7.6.9). Each table is a list of
// lanes, which take turns. In its turn a lane may begin a packet while it has some of its
// weight left. Lanes of the high table precede those of the low one, until they have
// sent the high limit's bytes while the low table had a packet to send.
//
// A nil table is that of a port that has not been configured: the low one has each lane with
// the same weight, the high one none.
type arbiter struct {
	low, high *[tableLen]smp.Weight
	lowAt     turn
	highAt    turn
	highSent  int // bytes since the last packet of the low table
}

// A turn is the entry whose turn it is, and the blocks that it may still send.
type turn struct {
	at   uint8
	left int
}

// evenWeight is the weight of a lane that has not been configured.
const evenWeight = 64

func first(set uint16) int { return bits.TrailingZeros16(set) }

// choose returns one lane of a set that is not empty, and whether it is the high table's
// turn.
func (a *arbiter) choose(ready uint16, limit uint8) (vl int, high bool) {
	if ready&(ready-1) == 0 && a.high == nil {
		return first(ready), false
	}
	hi := a.high != nil && listed(a.high)&ready != 0
	lowReady := ready & listed(a.low)
	if hi && (lowReady == 0 || limit == noHighLimit || a.highSent == 0 || a.highSent < int(limit)*highUnit) {
		return a.highAt.choose(a.high, ready), true
	}
	if lowReady == 0 { // in neither table: such a lane may send when no other does
		return first(ready), false
	}
	return a.lowAt.choose(a.low, lowReady), false
}

// sent charges the turn for a packet.
func (a *arbiter) sent(blocks int, high bool) {
	if high {
		a.highAt.left -= blocks
		a.highSent += blocks * ib.CreditBlock
		return
	}
	a.lowAt.left -= blocks
	a.highSent = 0
}

// entry returns an entry of a table or of the even one.
func entry(table *[tableLen]smp.Weight, i uint8) smp.Weight {
	if table == nil {
		if i < MaxVLs {
			return smp.Weight{VL: i, Weight: evenWeight}
		}
		return smp.Weight{}
	}
	return table[i]
}

// listed is the set of lanes with an entry.
func listed(table *[tableLen]smp.Weight) (set uint16) {
	if table == nil {
		return 1<<MaxVLs - 1
	}
	for _, w := range table {
		if w.Weight > 0 {
			set |= 1 << w.VL
		}
	}
	return set
}

// choose returns the lane whose turn it is among those that are ready. At least one of them
// is in the table.
func (t *turn) choose(table *[tableLen]smp.Weight, ready uint16) int {
	if w := entry(table, t.at); t.left > 0 && w.Weight > 0 && ready&(1<<w.VL) != 0 {
		return int(w.VL)
	}
	for range tableLen {
		t.at = (t.at + 1) % tableLen
		if w := entry(table, t.at); w.Weight > 0 && ready&(1<<w.VL) != 0 {
			t.left = int(w.Weight)
			return int(w.VL)
		}
	}
	return first(ready)
}

// half returns a half of one of the tables.
func (a *arbiter) half(half int) (h smp.VLArbitration) {
	table := a.low
	if half >= smp.ArbitrationHigh {
		table = a.high
		if table == nil {
			return h
		}
	}
	at := uint8(0)
	if half == smp.ArbitrationLowUpper || half == smp.ArbitrationHighUpper {
		at = tableLen / 2
	}
	for i := range h {
		h[i] = entry(table, at+uint8(i))
	}
	return h
}

// Arbitration returns a half of an arbitration table: smp.ArbitrationLow to
// smp.ArbitrationHighUpper.
func (p *Port) Arbitration(half int) smp.VLArbitration { return p.arbiter.half(half) }

// SetArbitration sets a half of an arbitration table.
func (p *Port) SetArbitration(half int, h *smp.VLArbitration) {
	a := &p.arbiter
	table, turn := &a.low, &a.lowAt
	if half >= smp.ArbitrationHigh {
		table, turn = &a.high, &a.highAt
	}
	if *table == nil {
		t := new([tableLen]smp.Weight)
		if table == &a.low {
			for i := range t {
				t[i] = entry(nil, uint8(i))
			}
		}
		*table = t
	}
	at := 0
	if half == smp.ArbitrationLowUpper || half == smp.ArbitrationHighUpper {
		at = tableLen / 2
	}
	for i, w := range h {
		w.VL &= 0xf
		(*table)[at+i] = w
	}
	turn.at, turn.left = 0, 0
}
