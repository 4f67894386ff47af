package iwarp

import (
	"encoding/binary"

	"softrdma/internal/crc"
)

// Limits of an FPDU.
const (
	CRCLen = 4

	// MaxULPDU is the longest ULPDU whose FPDU needs no padding.
	MaxULPDU = 65534

	// MaxFPDU is the FPDU of that: length field, ULPDU and CRC.
	MaxFPDU = LengthLen + MaxULPDU + CRCLen

	// MaxMarkedFPDU is the longest FPDU whose markers can all point at its
	// start, as a marker has 16 bits for the distance.
	MaxMarkedFPDU = 64512
)

// PadLen returns how many bytes of zero stand between a ULPDU of n bytes and the CRC
// (RFC 5044 4.1): FPDUs are multiples of four bytes long.
func PadLen(n int) int { return -(LengthLen + n) & 3 }

// FPDULen returns the length of the FPDU around a ULPDU of n bytes, without markers.
func FPDULen(n int) int { return LengthLen + n + PadLen(n) + CRCLen }

// UpdateCRC continues the CRC-32C of an FPDU, which begins with 0 and covers all
// of it before the CRC, markers included (RFC 5044 4.3, 4.4).
func UpdateCRC(sum uint32, b []byte) uint32 { return crc.Update(sum, crc.Castagnoli, b) }

// CRC reads the CRC of an FPDU. Unlike all other numbers, and as in iSCSI, its least
// significant byte comes first.
func CRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// PutCRC writes the CRC.
func PutCRC(b []byte, sum uint32) { binary.LittleEndian.PutUint32(b, sum) }
