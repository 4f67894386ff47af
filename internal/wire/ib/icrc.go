package ib

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"softrdma/internal/crc"
)

// The ICRC (IBTA 7.8.1, annexes A16 and A17.3.3) covers the network headers with the
// fields that switches and routers change replaced by ones (pseudoheader.go for RoCE v2,
// package rocev1 for RoCE v1), then the BTH with its resv8a byte replaced by ones, then
// the rest of the packet. Over Ethernet and IP, eight bytes of ones stand where a native
// packet has its LRH.

// lastWord is the length of what Join takes together with the BTH.
const lastWord = 4

// A Length is a 16-bit field of a network header that holds a length: the number of
// bytes from the BTH to the ICRC, plus Add, in units of 1<<Shift bytes.
type Length struct {
	At, Add int // At is where the field begins in the header
	Shift   uint8
}

// Value returns the field's value in a packet with length bytes from BTH to ICRC.
func (l *Length) Value(length int) uint16 { return uint16((length + l.Add) >> l.Shift) }

// A Prefix is the ICRC over what precedes the BTH of a flow's packets. Each direction
// of a flow has its own, which one goroutine at a time uses.
//
// It holds the CRC's register behind these headers but for their last four bytes, with
// lengths and identification zero: a CRC is linear, so that Join adds what these fields
// contribute from tables. That is faster than a CRC over the headers, and keeps them out
// of hash/crc32, which lets its argument escape to the heap. The last four bytes and the
// BTH together are sixteen bytes, which the processor takes at once.
type Prefix struct {
	register uint32 // with the last word added
	fields   [2]lengthField
	id       int8 // bytes between the identification and the last word; -1 without one

	high, low *[256]uint32 // the identification's rows of tail; nil without one

	// The register with the lengths of the last packet, as most have the same.
	sized  uint32
	length int
}

// A lengthField is a Length by the number of bytes between it and the last word. In the
// last word itself this is -2 for its first two bytes and -4 for the others; noField is no
// field.
type lengthField struct {
	behind int8
	shift  uint8
	add    uint16
}

const noField = -128

// NewPrefix returns the prefix of packets behind headers, which are given as the ICRC
// sees them: from the LRH or the eight bytes of ones that replace it, with ones in the
// fields that routers change, and with zeros in up to two lengths and in the
// identification. That is a 16-bit field which the sending system counts and a receiving
// socket does not show, IPv4's; id is where it begins, negative without one.
func NewPrefix(headers []byte, id int, lengths ...Length) Prefix {
	n := len(headers) - lastWord
	p := Prefix{register: ^crc32.ChecksumIEEE(headers[:n]) ^ binary.LittleEndian.Uint32(headers[n:]), id: -1, length: -1}
	for i := range p.fields {
		p.fields[i].behind = noField
	}
	for i, l := range lengths {
		p.fields[i] = lengthField{int8(n - l.At - 2), l.Shift, uint16(l.Add)}
	}
	if id >= 0 {
		p.id = int8(n - id - 2)
		p.high, p.low = &tail[p.id+1], &tail[p.id]
	}
	return p
}

// Identified reports whether the headers have an identification.
func (p *Prefix) Identified() bool { return p.id >= 0 }

// Join returns the CRC over the prefix of a packet with length bytes from BTH to ICRC,
// over its BTH, and over what follows of it in body. Prefixes without an identification
// ignore id. Continue with Extend over the rest, up to the ICRC. All three at once cost
// less than one after the other.
func (p *Prefix) Join(length int, id uint16, bth, body []byte) uint32 {
	if length != p.length {
		p.resize(length)
	}
	r := p.sized
	if p.high != nil {
		r ^= p.high[id>>8] ^ p.low[id&0xff]
	}
	low := uint64(r) | uint64(binary.LittleEndian.Uint32(bth))<<32
	return crc.Behind(low, binary.LittleEndian.Uint64(bth[4:])|0xff, crc.IEEE, body) // resv8a is masked
}

// resize adds the lengths of the headers.
func (p *Prefix) resize(length int) {
	p.length, p.sized = length, p.register
	for _, f := range p.fields {
		v := (uint16(length) + f.add) >> f.shift
		switch {
		case f.behind >= 0:
			p.sized ^= contribution(v, int(f.behind))
		case f.behind != noField:
			p.sized ^= uint32(bits.ReverseBytes16(v)) << (-8 * (2 + int(f.behind)))
		}
	}
}

// distances is one more than the most bytes between the beginning of a field that
// Join adds and the last word: at the second byte of a GRH or an IPv6 header.
const distances = GRHLen

// tail[k][b] is the CRC's register after byte b and k bytes of zero.
var tail = func() (t [distances][256]uint32) {
	for b := range 256 {
		r := crc32.IEEETable[b]
		for k := range distances {
			t[k][b] = r
			r = r>>8 ^ crc32.IEEETable[byte(r)]
		}
	}
	return t
}()

// contribution returns what a 16-bit field with n bytes behind it adds.
func contribution(v uint16, n int) uint32 { return tail[n+1][v>>8] ^ tail[n][v&0xff] }

// Extend continues a CRC over more of the packet.
func Extend(sum uint32, b []byte) uint32 { return crc.Update(sum, crc.IEEE, b) }

// PutICRC writes the finished CRC as it stands on the wire.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// ICRC returns the CRC that the packet's last four bytes hold.
func ICRC(packet []byte) uint32 { return binary.LittleEndian.Uint32(packet[len(packet)-ICRCLen:]) }

// Sum computes the ICRC of a packet given from BTH to ICRC (the last four
// bytes, not read). The packet has at least BTHLen+ICRCLen bytes.
func (p *Prefix) Sum(id uint16, packet []byte) uint32 {
	return p.Join(len(packet), id, packet[:BTHLen], packet[BTHLen:len(packet)-ICRCLen])
}

// A Checker checks the ICRC of received packets. The zero value is ready. It
// remembers the last packet length and so belongs to one goroutine at a time.
//
// A UDP socket hides the IPv4 identification, 16 bits that the ICRC covers.
// Where the expected identification does not give the packet's ICRC, the
// Checker solves for it: a CRC is linear, so the difference between the ICRC
// found and the one computed, run backwards over the bytes behind the field,
// must be zero outside these 16 bits. The sixteen other bits still detect a
// corrupted packet, all 32 do when the identification is as expected, and on
// IPv6 always.
type Checker struct {
	behind  int    // bytes behind the identification's word for which inverse holds
	inverse uint32 // x^-(32+8*behind)
}

// Check reports whether the packet, given from BTH to ICRC, has the right ICRC
// for some identification, and which one. A packet too short for a BTH and an
// ICRC has none.
func (c *Checker) Check(p *Prefix, id uint16, packet []byte) (uint16, bool) {
	if len(packet) < BTHLen+ICRCLen {
		return 0, false
	}
	diff := p.Sum(id, packet) ^ ICRC(packet)
	if diff == 0 {
		return id, true
	}
	if !p.Identified() {
		return 0, false
	}
	// The word that begins with the identification: IPv4's flags and fragment offset follow.
	behind := int(p.id) - 2 + lastWord + len(packet) - ICRCLen
	if c.behind != behind {
		c.behind, c.inverse = behind, inversePower(32+8*behind)
	}
	w := multiply(diff, c.inverse)
	if w&0xffff0000 != 0 {
		return 0, false
	}
	return id ^ (uint16(w)<<8 | uint16(w)>>8), true
}

// Polynomials modulo that of CRC-32, least significant bit first as in the
// checksum: bit 31 is x^0.
const (
	polynomial = 0xedb88320
	one        = 1 << 31
)

func multiply(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ polynomial
		} else {
			b >>= 1
		}
	}
	return p
}

// inversePower is x^-n: the polynomial is primitive, so x has order 2^32-1.
func inversePower(n int) uint32 {
	e := uint32(1<<32 - 1 - n)
	p, x := uint32(one), uint32(one>>1)
	for ; e != 0; e >>= 1 {
		if e&1 != 0 {
			p = multiply(p, x)
		}
		x = multiply(x, x)
	}
	return p
}
