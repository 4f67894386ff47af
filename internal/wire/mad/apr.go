package mad

import (
	"encoding/binary"
	"fmt"
)

// How many bytes of additional information and of private data an APR carries.
const (
	APRInfoLen    = 72
	APRPrivateLen = 148
)

// An APR answers a LAP (IBTA 12.8.2).
//
//	 0 |                    Local Communication ID                     |
//	 4 |                    Remote Communication ID                    |
//	 8 |  Info Length  |   AP Status   |           Reserved            |
//	12 |      Additional Information (72 bytes)                        |
//	84 |      Private Data (148 bytes)                                 |
type APR struct {
	LocalID, RemoteID uint32
	InfoLen           uint8
	Status            APStatus
	Info              [APRInfoLen]byte
	Private           [APRPrivateLen]byte
}

// Parse reads the message.
func (m *APR) Parse(d *[Len]byte) {
	b := d[HeaderLen:]
	m.LocalID = binary.BigEndian.Uint32(b)
	m.RemoteID = binary.BigEndian.Uint32(b[4:])
	m.InfoLen, m.Status = b[8], APStatus(b[9])
	copy(m.Info[:], b[12:])
	copy(m.Private[:], b[84:])
}

// Put writes the message after the header, which is already in d.
func (m *APR) Put(d *[Len]byte) {
	b := d[HeaderLen:]
	binary.BigEndian.PutUint32(b, m.LocalID)
	binary.BigEndian.PutUint32(b[4:], m.RemoteID)
	b[8], b[9] = m.InfoLen, byte(m.Status)
	copy(b[12:84], m.Info[:])
	copy(b[84:], m.Private[:])
}

// An APStatus is the result of an alternate path (IBTA 12.8.2).
type APStatus uint8

// The statuses that softrdma answers with.
const (
	APLoaded        APStatus = 0
	APInvalidCommID APStatus = 1
	APUnsupported   APStatus = 2
)

// String says the status in words.
func (s APStatus) String() string {
	switch s {
	case APLoaded:
		return "alternate path loaded"
	case APInvalidCommID:
		return "invalid communication ID"
	case APUnsupported:
		return "alternate paths not supported"
	}
	return fmt.Sprintf("alternate path status %d", uint8(s))
}
