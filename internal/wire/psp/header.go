package psp

import (
	"encoding/binary"
	"fmt"
)

// Port is the UDP port of PSP packets.
const Port = 1000

// Lengths in bytes.
const (
	HeaderLen = 16 // without the cookie
	CookieLen = 8
	ICVLen    = 16 // integrity check value, behind the data

	// Overhead is what a packet without a cookie is longer than what it protects, without UDP header.
	Overhead = HeaderLen + ICVLen
)

// A Version is the algorithm that protects a packet.
type Version uint8

// Versions that this package knows. Others authenticate without encryption.
const (
	AESGCM128 Version = 0
	AESGCM256 Version = 1
)

// Next headers of packets.
const (
	NextUDP  = 17
	NextTCP  = 6
	NextIPv4 = 4 // tunnel mode
	NextIPv6 = 41
)

// MaxCryptOffset is the largest crypt offset: 6 bits, in units of 4 bytes.
const MaxCryptOffset = 63 * 4

// Bits of the header's fourth byte.
const (
	sampleBit = 0x80
	dropBit   = 0x40
	cookieBit = 0x02
	oneBit    = 0x01 // is always set
)

// A Header is the header of a packet.
type Header struct {
	Next        uint8 // IP protocol of what is protected
	CryptOffset int   // bytes behind the first 16 that are not encrypted: a multiple of 4
	Version     Version
	Sample      bool // the packet is to be sampled by devices on the way
	Drop        bool // the packet is to be dropped by its receiver
	SPI         uint32
	IV          uint64 // no two packets with one SPI have the same

	HasCookie bool
	Cookie    uint64 // of a virtual network
}

// Len returns the length of the header with its cookie.
func (h *Header) Len() int {
	if h.HasCookie {
		return HeaderLen + CookieLen
	}
	return HeaderLen
}

// Put writes the header, whose crypt offset is at most [MaxCryptOffset].
func (h *Header) Put(b []byte) {
	b[0], b[1], b[2], b[3] = h.Next, 1, uint8(h.CryptOffset/4)&0x3f, uint8(h.Version)&15<<2|oneBit
	if h.Sample {
		b[3] |= sampleBit
	}
	if h.Drop {
		b[3] |= dropBit
	}
	binary.BigEndian.PutUint32(b[4:], h.SPI)
	binary.BigEndian.PutUint64(b[8:], h.IV)
	if h.HasCookie {
		b[1], b[3] = 2, b[3]|cookieBit
		binary.BigEndian.PutUint64(b[HeaderLen:], h.Cookie)
	}
}

// Parse reads the header of a packet, which is given without its UDP header. It returns how long header and
// extensions are. Cookie is right only where the crypt offset leaves it in the clear.
func Parse(b []byte) (h Header, length int, err error) {
	if len(b) < HeaderLen+ICVLen {
		return h, 0, fmt.Errorf("PSP packet: expected at least %d bytes, found %d", HeaderLen+ICVLen, len(b))
	}
	h = Header{
		Next: b[0], CryptOffset: int(b[2]&0x3f) * 4, Version: Version(b[3] >> 2 & 15), Sample: b[3]&sampleBit != 0, Drop: b[3]&dropBit != 0,
		SPI: binary.BigEndian.Uint32(b[4:]), IV: binary.BigEndian.Uint64(b[8:]), HasCookie: b[3]&cookieBit != 0,
	}
	length = 8 + 8*int(b[1])
	data := len(b) - HeaderLen - ICVLen
	switch {
	case b[3]&oneBit == 0:
		return h, 0, fmt.Errorf("PSP header: expected the last bit of byte 3 set, found %#02x", b[3])
	case length < h.Len():
		return h, 0, fmt.Errorf("PSP header: expected a length of at least %d bytes, found %d", h.Len(), length)
	case length > HeaderLen+data:
		return h, 0, fmt.Errorf("PSP header: expected a length of at most %d bytes, found %d", HeaderLen+data, length)
	case h.CryptOffset > data:
		return h, 0, fmt.Errorf("PSP header: expected a crypt offset of at most %d bytes, found %d", data, h.CryptOffset)
	}
	if h.HasCookie {
		h.Cookie = binary.BigEndian.Uint64(b[HeaderLen:])
	}
	return h, length, nil
}
