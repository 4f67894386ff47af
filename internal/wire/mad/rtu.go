package mad

import "encoding/binary"

// RTUPrivateLen is how many bytes of private data an RTU carries.
const RTUPrivateLen = 224

// An RTU ("ready to use") ends the establishment of a connection (IBTA
// 12.6.9).
//
//	0 |                    Local Communication ID                     |
//	4 |                    Remote Communication ID                    |
//	8 |      Private Data (224 bytes)                                 |
type RTU struct {
	LocalID, RemoteID uint32
	Private           [RTUPrivateLen]byte
}

// Parse reads the message.
func (m *RTU) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	copy(m.Private[:], b[8:])
}

// Put writes the message after the header, which is already in d.
func (m *RTU) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	copy(b[8:], m.Private[:])
}
