package mad

import "encoding/binary"

// NoticeLen is the length of a Notice, NoticeDetailsLen that of its details,
// in bytes.
const (
	NoticeLen        = 80
	NoticeDetailsLen = 54
)

// Types of a notice (IBTA 13.4.8.2).
const (
	NoticeFatal         = 0
	NoticeUrgent        = 1
	NoticeSecurity      = 2
	NoticeManagement    = 3 // subnet management
	NoticeInformational = 4
	NoticeEmpty         = 0x7f
)

// Producers of generic notices: the node type of the issuer, or a manager.
const (
	ProducerAdapter = 1
	ProducerSwitch  = 2
	ProducerRouter  = 3
	ProducerManager = 4
)

// A Notice is the attribute of a trap or report (IBTA 13.4.8.2). Subnet
// management packets only have room for its first 64 bytes, without IssuerGID.
//
//	 0 |G|    Type     |       Producer Type / Vendor ID       |
//	 4 |       Trap Number / Device ID     |    Issuer LID     |
//	 8 |T|        Notice Count             |                   |
//	   |                   Data Details (54 bytes)             |
//	64 |                   Issuer GID (16 bytes)               |
type Notice struct {
	Generic   bool
	Type      uint8  // 7 bits
	Producer  uint32 // 24 bits
	Number    uint16
	IssuerLID uint16
	Toggle    bool
	Count     uint16 // 15 bits
	Details   [NoticeDetailsLen]byte
	IssuerGID GID
}

// ParseManagement reads the part of the notice that a subnet management packet holds.
func (n *Notice) ParseManagement(b *[64]byte) {
	v := binary.BigEndian.Uint32(b[:])
	n.Generic, n.Type, n.Producer = v>>31 != 0, uint8(v>>24&0x7f), v&0xffffff
	n.Number = binary.BigEndian.Uint16(b[4:])
	n.IssuerLID = binary.BigEndian.Uint16(b[6:])
	c := binary.BigEndian.Uint16(b[8:])
	n.Toggle, n.Count = c>>15 != 0, c&0x7fff
	copy(n.Details[:], b[10:])
}

// PutManagement writes the part of the notice that a subnet management packet holds.
func (n *Notice) PutManagement(b *[64]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(bit(n.Generic))<<31|uint32(n.Type&0x7f)<<24|n.Producer&0xffffff)
	binary.BigEndian.PutUint16(b[4:], n.Number)
	binary.BigEndian.PutUint16(b[6:], n.IssuerLID)
	binary.BigEndian.PutUint16(b[8:], uint16(bit(n.Toggle))<<15|n.Count&0x7fff)
	copy(b[10:], n.Details[:])
}

// Parse reads the notice.
func (n *Notice) Parse(b *[NoticeLen]byte) {
	n.ParseManagement((*[64]byte)(b[:]))
	copy(n.IssuerGID[:], b[64:])
}

// Put writes the notice.
func (n *Notice) Put(b *[NoticeLen]byte) {
	n.PutManagement((*[64]byte)(b[:]))
	copy(b[64:], n.IssuerGID[:])
}
