package mad

import "encoding/binary"

// DREPPrivateLen is how many bytes of private data a DREP carries.
const DREPPrivateLen = 224

// A DREP confirms the end of a connection (IBTA 12.6.11).
//
//	0 |                    Local Communication ID                     |
//	4 |                    Remote Communication ID                    |
//	8 |      Private Data (224 bytes)                                 |
type DREP struct {
	LocalID, RemoteID uint32
	Private           [DREPPrivateLen]byte
}

// Parse reads the message.
func (m *DREP) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	copy(m.Private[:], b[8:])
}

// Put writes the message after the header, which is already in d.
func (m *DREP) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	copy(b[8:], m.Private[:])
}
