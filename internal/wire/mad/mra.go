package mad

import "encoding/binary"

// MRAPrivateLen is how many bytes of private data an MRA carries.
const MRAPrivateLen = 222

// An MRA says that a message arrived and that its answer takes longer (IBTA
// 12.6.6).
//
//	0 |                    Local Communication ID                     |
//	4 |                    Remote Communication ID                    |
//	8 |MRA|  Reserved | SvcTimeout|Rsv|  Private Data (222 bytes)     |
type MRA struct {
	LocalID, RemoteID uint32
	Of                Which
	ServiceTimeout    uint8 // 5 bits: 4.096 µs times 2 to its power
	Private           [MRAPrivateLen]byte
}

// Parse reads the message.
func (m *MRA) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.Of = Which(b[8] >> 6)
	m.ServiceTimeout = b[9] >> 3
	copy(m.Private[:], b[10:])
}

// Put writes the message after the header, which is already in d.
func (m *MRA) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	b[8] = byte(m.Of) << 6
	b[9] = m.ServiceTimeout << 3
	copy(b[10:], m.Private[:])
}
