package mad

import "encoding/binary"

// How many bytes of additional information and of private data a REJ carries.
const (
	REJInfoLen    = 72
	REJPrivateLen = 148
)

// A REJ refuses a message and ends the connection (IBTA 12.6.7).
//
//	 0 |                    Local Communication ID                     |
//	 4 |                    Remote Communication ID                    |
//	 8 |REJ|  Reserved | Info Length |R|            Reason             |
//	12 |      Additional Reject Information (72 bytes)                 |
//	84 |      Private Data (148 bytes)                                 |
type REJ struct {
	LocalID, RemoteID uint32
	Of                Which
	InfoLen           uint8 // 7 bits, of Info; longer than Info if the sender errs
	Reason            RejectReason
	Info              [REJInfoLen]byte
	Private           [REJPrivateLen]byte
}

// Parse reads the message.
func (m *REJ) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.Of = Which(b[8] >> 6)
	m.InfoLen = b[9] >> 1
	m.Reason = RejectReason(binary.BigEndian.Uint16(b[10:]))
	copy(m.Info[:], b[12:])
	copy(m.Private[:], b[84:])
}

// Put writes the message after the header, which is already in d.
func (m *REJ) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	b[8] = byte(m.Of) << 6
	b[9] = m.InfoLen << 1
	binary.BigEndian.PutUint16(b[10:], uint16(m.Reason))
	copy(b[12:84], m.Info[:])
	copy(b[84:], m.Private[:])
}

// AcceptableMTU returns the path MTU that the additional information of a REJ for an invalid
// one (reason 26) names, 0 if it names none. The field is in the upper four bits of its
// byte, as in a REQ; the lower four are accepted too.
func AcceptableMTU(ari []byte) MTU {
	if len(ari) == 0 {
		return 0
	}
	if m := MTU(ari[0] >> 4); m != 0 {
		return m
	}
	return MTU(ari[0] & 0xf)
}

// ARI returns the additional information, never longer than its field.
func (m *REJ) ARI() []byte { return m.Info[:min(int(m.InfoLen), REJInfoLen)] }
