package attach

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// A Violation is a packet that a program's adapter has refused for its key. The fabric counts
// it at the port, and sends a trap.
type Violation struct {
	QKey                      bool // otherwise the P_Key
	Key                       uint32
	SLID, DLID                uint16
	SL                        uint8
	SourceQPN, DestinationQPN uint32
	Global                    bool
	Source, Destination       mad.GID
}

// violatedLen is the length of a message of kind Violated.
const violatedLen = 1 + 1 + 1 + 2 + 2 + 4 + 4 + 4 + 16 + 16

// Message returns the violation as a message:
//
//	kind (1), 1 for a Q_Key | 2 for a GRH (1), SL (1), SLID (2), DLID (2), key (4),
//	source queue pair (4), destination (4), source GID (16), destination GID (16)
func (v *Violation) Message() []byte {
	b := make([]byte, 0, violatedLen)
	flags := byte(0)
	if v.QKey {
		flags |= 1
	}
	if v.Global {
		flags |= 2
	}
	b = append(b, byte(Violated), flags, v.SL)
	b = binary.BigEndian.AppendUint16(b, v.SLID)
	b = binary.BigEndian.AppendUint16(b, v.DLID)
	b = binary.BigEndian.AppendUint32(b, v.Key)
	b = binary.BigEndian.AppendUint32(b, v.SourceQPN)
	b = binary.BigEndian.AppendUint32(b, v.DestinationQPN)
	b = append(b, v.Source[:]...)
	return append(b, v.Destination[:]...)
}

// Parse reads a message of kind Violated.
func (v *Violation) Parse(b []byte) error {
	if len(b) != violatedLen || b[1] > 3 || b[2] > 15 {
		return malformed(violatedLen, uint64(len(b)))
	}
	*v = Violation{QKey: b[1]&1 != 0, Global: b[1]&2 != 0, SL: b[2], SLID: binary.BigEndian.Uint16(b[3:]), DLID: binary.BigEndian.Uint16(b[5:]),
		Key: binary.BigEndian.Uint32(b[7:]), SourceQPN: binary.BigEndian.Uint32(b[11:]), DestinationQPN: binary.BigEndian.Uint32(b[15:])}
	copy(v.Source[:], b[19:])
	copy(v.Destination[:], b[35:])
	return nil
}
