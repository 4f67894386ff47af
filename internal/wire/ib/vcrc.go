package ib

import (
	"encoding/binary"

	"softrdma/internal/crc"
)

// VCRCLen is the length of the variant CRC at the end of an InfiniBand packet.
const VCRCLen = 2

// VCRC computes the variant CRC (IBTA 7.8.2). It covers all of the packet in front of it,
// with the fields that switches change, so that each link checks it. The CRC of link
// packets (IBTA 7.9.4) is the same function of their first four bytes.
func VCRC(b []byte) uint16 { return uint16(crc.Update(^uint32(0xffff), crc.VCRC, b)) }

// PutVCRC computes the CRC of a packet or link packet and writes it to the last two bytes.
func PutVCRC(packet []byte) {
	n := len(packet) - VCRCLen
	binary.LittleEndian.PutUint16(packet[n:], VCRC(packet[:n]))
}

// CheckVCRC returns the CRC that the packet should have and the one that it has. The
// packet has at least two bytes.
func CheckVCRC(packet []byte) (want, found uint16) {
	n := len(packet) - VCRCLen
	return VCRC(packet[:n]), binary.LittleEndian.Uint16(packet[n:])
}
