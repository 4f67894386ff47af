package mad

import "encoding/binary"

// DREQPrivateLen is how many bytes of private data a DREQ carries.
const DREQPrivateLen = 220

// A DREQ asks to end a connection (IBTA 12.6.10).
//
//	 0 |                    Local Communication ID                     |
//	 4 |                    Remote Communication ID                    |
//	 8 |              Remote QPN/EECN                  |   Reserved    |
//	12 |      Private Data (220 bytes)                                 |
type DREQ struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // of the receiver, 24 bits
	Private           [DREQPrivateLen]byte
}

// Parse reads the message.
func (m *DREQ) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.RemoteQPN = get24(b[8:])
	copy(m.Private[:], b[12:])
}

// Put writes the message after the header, which is already in d.
func (m *DREQ) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	put24(b[8:], m.RemoteQPN)
	copy(b[12:], m.Private[:])
}
