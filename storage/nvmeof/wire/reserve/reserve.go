// Package reserve has the formats of commands for reservations of namespaces.
package reserve

import (
	"encoding/binary"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/format"
)

var le = binary.LittleEndian

// A ReservationType says what hosts may do that do not hold the reservation of a namespace.
type ReservationType uint8

// The types (base 2.0, 8.19.2). 0 means that there is no reservation.
const (
	WriteExclusive               ReservationType = 1 + iota // the holder writes, all read
	ExclusiveAccess                                         // the holder writes and reads
	WriteExclusiveRegistrants                               // registrants write, all read
	ExclusiveAccessRegistrants                              // registrants write and read
	WriteExclusiveAllRegistrants                            // likewise, and all registrants hold it
	ExclusiveAccessAllRegistrants
)

// AllTypes has the bits of all types in the field RESCAP of a namespace.
const AllTypes = 0x7e

// Valid reports whether the type is defined.
func (t ReservationType) Valid() bool {
	return t >= WriteExclusive && t <= ExclusiveAccessAllRegistrants
}

// WritesOnly reports whether other hosts may read.
func (t ReservationType) WritesOnly() bool { return t&1 != 0 }

// Registrants reports whether registrants may do what the holder may.
func (t ReservationType) Registrants() bool { return t >= WriteExclusiveRegistrants }

// AllHold reports whether all registrants hold the reservation.
func (t ReservationType) AllHold() bool { return t >= WriteExclusiveAllRegistrants }

// Actions of reservation commands.
const (
	RegisterKey   = 0
	UnregisterKey = 1
	ReplaceKey    = 2

	AcquireReservation      = 0
	PreemptReservation      = 1
	PreemptAbortReservation = 2

	ReleaseReservation = 0
	ClearReservations  = 1
)

// ReservationFields are those of the commands register, acquire and release.
type ReservationFields struct {
	Action    uint8
	IgnoreKey bool // the existing key of the host
	Type      ReservationType
}

// ReservationOf returns the fields of a command.
func ReservationOf(c *capsule.Command) ReservationFields {
	return ReservationFields{uint8(c.CDW10 & 7), c.CDW10>>3&1 != 0, ReservationType(c.CDW10 >> 8)}
}

// Command returns the command of an opcode with the fields.
func (f ReservationFields) Command(o capsule.Opcode, nsid uint32) capsule.Command {
	c := capsule.Command{Opcode: o, NSID: nsid, CDW10: uint32(f.Action) | uint32(f.Type)<<8}
	if f.IgnoreKey {
		c.CDW10 |= 1 << 3
	}
	return c
}

// Lengths of the data of reservation commands in bytes.
const (
	ReservationKeysLen   = 16 // of register and acquire
	ReservationKeyLen    = 8  // of release
	ReservationReportLen = 64 // of report, besides its registrants
	RegistrantLen        = 64
)

// ReservationKeys returns the keys in the data of a command: the host's, and if there is one the second.
func ReservationKeys(b []byte) (current, other uint64, err error) {
	if err := format.Needs(b, ReservationKeyLen, "reservation key"); err != nil {
		return 0, 0, err
	}
	if len(b) >= ReservationKeysLen {
		other = le.Uint64(b[8:])
	}
	return le.Uint64(b), other, nil
}

// AppendReservationReport appends the head of a report with host identifiers of 128 bits.
func AppendReservationReport(b []byte, generation uint32, t ReservationType, registrants int) []byte {
	b, p := format.Grow(b, ReservationReportLen)
	le.PutUint32(p, generation)
	p[4] = uint8(t)
	le.PutUint16(p[5:], uint16(registrants))
	return b
}

// AppendRegistrant appends a registrant of a report. Controllers that exist by connections have no number.
func AppendRegistrant(b []byte, holds bool, key uint64, host [16]byte) []byte {
	b, p := format.Grow(b, RegistrantLen)
	le.PutUint16(p, 0xffff)
	if holds {
		p[2] = 1
	}
	le.PutUint64(p[8:], key)
	copy(p[16:], host[:])
	return b
}
