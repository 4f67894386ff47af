package port

import (
	"encoding/binary"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// partitions is the partition table of a port. Entries of zero are unused.
type partitions []uint16

// SetPartitions replaces the partition table. Entries of zero are unused.
func (p *partitions) SetPartitions(table []uint16) { *p = append((*p)[:0], table...) }

// Partitions returns the partition table.
func (p *partitions) Partitions() []uint16 { return *p }

// match returns the P_Key of a packet and reports whether it matches one of the port's
// table: the lower 15 bits are the same, and at least one of the two is of a full member
// (IBTA 10.9.3). Raw packets have no key and match.
func (p partitions) match(k *Packet) (uint16, bool) {
	at := k.LRH.HeaderLen() + 2 // the P_Key in the BTH
	if k.LRH.Next < ib.LocalBTH {
		return 0, true
	}
	if len(k.Data) < at+2 {
		return 0, false
	}
	key := binary.BigEndian.Uint16(k.Data[at:])
	for _, t := range p {
		if (t^key)&^smp.FullMember == 0 && (t|key)&smp.FullMember != 0 && t&^smp.FullMember != 0 {
			return key, true
		}
	}
	return key, false
}
