package ib

import "encoding/binary"

// A Placement says how far a FLUSH carries what was written before it; several may be asked
// for at once (IBTA A19). The numbers are those of ibv_placement_type.
type Placement uint8

// The placements.
const (
	GlobalVisibility Placement = 1 << 0 // every reader of the responder's host sees it
	Persistence      Placement = 1 << 1 // it survives a loss of power
)

// A Selectivity says what a FLUSH is about (IBTA A19). The numbers are those of
// ibv_selectivity_level.
type Selectivity uint8

// The selectivities.
const (
	FlushRange  Selectivity = 0 // the range that the RETH names
	FlushRegion Selectivity = 1 // the whole region of the R_Key
)

// A FETH is the FLUSH extended transport header (IBTA A19). The RETH follows it.
//
//	+-----------------------------------------------------+---+-------+
//	|                      Reserved                       |SEL|  PLT  |
//	+-----------------------------------------------------+---+-------+
type FETH struct {
	Selectivity Selectivity // 2 bits
	Placement   Placement   // 4 bits
}

// KnownFETH has the bits of a FETH that the standard defines.
const KnownFETH = uint32(FlushRegion)<<4 | uint32(GlobalVisibility|Persistence)

// Known reports whether the standard defines both fields.
func (h FETH) Known() bool { return h.Bits()&^KnownFETH == 0 }

// Bits returns the header as a number.
func (h FETH) Bits() uint32 { return uint32(h.Selectivity&3)<<4 | uint32(h.Placement&0xf) }

func (h *FETH) parse(b []byte) {
	v := binary.BigEndian.Uint32(b)
	h.Selectivity, h.Placement = Selectivity(v>>4&3), Placement(v&0xf)
}

func (h *FETH) put(b []byte) { binary.BigEndian.PutUint32(b, h.Bits()) }
