// Package crc computes CRC-32 faster than hash/crc32 on processors that multiply polynomials
// of 256 or 512 bits at a time (VPCLMULQDQ), and on those that cannot multiply polynomials.
// After system calls, the ICRC is the largest part of a packet's cost.
//
// It owns the arithmetic and knows nothing of packets.
package crc

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A Table is a polynomial with the constants computed from it.
type Table struct {
	k    multipliers
	tail [8][256]uint32 // tail[n][b] is the register after byte b and n bytes of zero
	std  *crc32.Table
}

// multipliers holds the constants of fold, in the layout that it reads.
type multipliers struct {
	// far carry 128 bits over a distance d: x^(d+32) and x^(d-32) modulo the
	// polynomial, for d of 2048, 1024, 512, 256 and 128 bits.
	far [5][2]uint64

	// near are x^96 and x^64, which bring 128 bits down to 64, then the
	// polynomial and its reciprocal for Barrett's reduction to 32.
	near [4]uint64
}

// IEEE is the CRC-32 of Ethernet and of InfiniBand's ICRC.
var IEEE = newTable(crc32.IEEETable, crc32.IEEE)

// Castagnoli is the CRC-32C of iSCSI and of iWARP's MPA (RFC 5044 4.4).
var Castagnoli = newTable(crc32.MakeTable(crc32.Castagnoli), crc32.Castagnoli)

// VCRC is the CRC-16 of InfiniBand's links (IBTA 7.8.2), polynomial 0x100B, in the lower
// half of the register. The upper half stays zero from a register of zeros there: it is the
// CRC-32 whose polynomial is this one times x^16.
var VCRC = newTable(crc32.MakeTable(0xd008), 0xd008)

// newTable makes the table of a reversed polynomial.
func newTable(std *crc32.Table, reversed uint32) *Table {
	t := &Table{std: std}
	for i, d := range [...]int{2048, 1024, 512, 256, 128} {
		t.k.far[i] = [2]uint64{power(reversed, d+32), power(reversed, d-32)}
	}
	t.k.near = [4]uint64{power(reversed, 96), power(reversed, 64), uint64(reversed)<<1 | 1, reciprocal(reversed)}
	for b := range 256 {
		r := std[b]
		for n := range t.tail {
			t.tail[n][b] = r
			r = r>>8 ^ std[byte(r)]
		}
	}
	return t
}

// power returns x^n modulo the polynomial, reversed, and shifted by the one bit that a product
// of reversed polynomials lacks.
func power(reversed uint32, n int) uint64 {
	p := bits.Reverse32(reversed)
	r := uint32(1)
	for range n {
		carry := r >> 31
		if r <<= 1; carry != 0 {
			r ^= p
		}
	}
	return uint64(bits.Reverse32(r)) << 1
}

// reciprocal returns the quotient of x^64 and the polynomial, 33 bits reversed.
func reciprocal(reversed uint32) uint64 {
	p := 1<<32 | uint64(bits.Reverse32(reversed))
	quotient, rest := uint64(1)<<32, (p^1<<32)<<32 // the first step of a division, done
	for i := 31; i >= 0; i-- {
		if rest>>(32+i)&1 != 0 {
			quotient |= 1 << i
			rest ^= p << i
		}
	}
	return bits.Reverse64(quotient) >> 31
}

// tableTo is the measured length up to which tables are fastest. It is also the minimum length
// for fold.
const tableTo = 16

// Update continues a checksum over b, as crc32.Update does.
func Update(crc uint32, t *Table, b []byte) uint32 {
	switch {
	case len(b) < tableTo:
		return ^t.rest(^crc, b)
	case !folds && !multiplies && t == IEEE:
		return ^t.sparse(^crc, b)
	case !folds && t == VCRC: // hash/crc32 would process one byte at a time
		return ^t.words(^crc, b)
	case !folds:
		return crc32.Update(crc, t.std, b)
	}
	n := len(b) &^ 15
	r := fold(^crc, &b[0], n, &t.k, wide)
	if n < len(b) {
		r = t.rest(r, b[n:])
	}
	return ^r
}

// Behind returns the checksum of 16 bytes, low and high in memory order, followed by b, from a
// register of zero. To continue a checksum, add its register to the first four bytes. This
// makes headers cheap that are already in registers.
func Behind(low, high uint64, t *Table, b []byte) uint32 {
	if len(b) < tableTo || !folds {
		r := t.word(t.word(0, low), high)
		return Update(^r, t, b)
	}
	n := len(b) &^ 15
	r := foldBehind(low, high, &b[0], n, &t.k, wide)
	if n < len(b) {
		r = t.rest(r, b[n:])
	}
	return ^r
}

// word updates the register with eight bytes.
func (t *Table) word(r uint32, w uint64) uint32 {
	r ^= uint32(w)
	return t.tail[7][byte(r)] ^ t.tail[6][byte(r>>8)] ^ t.tail[5][byte(r>>16)] ^ t.tail[4][r>>24] ^
		t.tail[3][byte(w>>32)] ^ t.tail[2][byte(w>>40)] ^ t.tail[1][byte(w>>48)] ^ t.tail[0][w>>56]
}

// words updates the register with b, eight bytes at a time.
func (t *Table) words(r uint32, b []byte) uint32 {
	for len(b) >= 16 {
		r = t.word(r, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	return t.rest(r, b)
}

// rest updates the register with the bytes that do not fill 128 bits.
func (t *Table) rest(r uint32, b []byte) uint32 {
	if len(b) >= 8 {
		r = t.word(r, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	if len(b) >= 4 {
		r ^= binary.LittleEndian.Uint32(b)
		r = t.tail[3][byte(r)] ^ t.tail[2][byte(r>>8)] ^ t.tail[1][byte(r>>16)] ^ t.tail[0][r>>24]
		b = b[4:]
	}
	for _, c := range b {
		r = r>>8 ^ t.tail[0][byte(r)^c]
	}
	return r
}
