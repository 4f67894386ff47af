// Package crc computes CRC-32 faster than hash/crc32 where the processor
// multiplies polynomials 256 bits at a time (VPCLMULQDQ): the ICRC is the
// largest part of what a packet costs that no system call is.
//
// It owns the arithmetic, and knows nothing of packets.
package crc

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A Table is a polynomial with what is computed from it.
type Table struct {
	// fold are the multipliers that carry 128 bits over a distance: x^(d+32)
	// and x^(d-32) modulo the polynomial, for d of 1024, 256 and 128 bits, each
	// pair twice so that it fills 256 bits.
	fold [3][4]uint64

	// tail[k][b] is the register after byte b and k bytes of zero.
	tail [4][256]uint32

	std *crc32.Table
}

// IEEE is the CRC-32 of Ethernet and of InfiniBand's ICRC.
var IEEE = newTable(crc32.IEEETable, crc32.IEEE)

// newTable makes the table of a polynomial in its reversed form.
func newTable(std *crc32.Table, reversed uint32) *Table {
	t := &Table{std: std}
	for i, distance := range [...]int{1024, 256, 128} {
		near, far := multiplier(reversed, distance+32), multiplier(reversed, distance-32)
		t.fold[i] = [4]uint64{near, far, near, far}
	}
	for b := range 256 {
		r := std[b]
		for k := range t.tail {
			t.tail[k][b] = r
			r = r>>8 ^ std[byte(r)]
		}
	}
	return t
}

// multiplier is x^n modulo the polynomial, reversed, and shifted by the one bit
// that a product of reversed polynomials lacks.
func multiplier(reversed uint32, n int) uint64 {
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

// foldFrom is the length from which folding pays; measured.
const foldFrom = 256

// Update continues a checksum over b, as crc32.Update does.
func Update(crc uint32, t *Table, b []byte) uint32 {
	if !folds || len(b) < foldFrom {
		return crc32.Update(crc, t.std, b)
	}
	var rest [16]byte
	n := len(b) &^ 15
	fold(&rest, ^crc, &b[0], n, &t.fold)
	// What is left of the folded bytes stands for all of them.
	r, b := t.words(0, rest[:]), b[n:]
	return ^t.bytes(t.words(r, b), b[len(b)&^3:])
}

// words takes the register over all whole words of four bytes.
func (t *Table) words(r uint32, b []byte) uint32 {
	for ; len(b) >= 4; b = b[4:] {
		r ^= binary.LittleEndian.Uint32(b)
		r = t.tail[3][byte(r)] ^ t.tail[2][byte(r>>8)] ^ t.tail[1][byte(r>>16)] ^ t.tail[0][r>>24]
	}
	return r
}

func (t *Table) bytes(r uint32, b []byte) uint32 {
	for _, c := range b {
		r = r>>8 ^ t.tail[0][byte(r)^c]
	}
	return r
}
