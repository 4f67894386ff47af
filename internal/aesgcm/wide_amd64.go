package aesgcm

import (
	"crypto/fips140"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"math/bits"

	"golang.org/x/sys/cpu"
)

// usable reports whether the wide code works here, and may be used.
var usable = cpu.X86.HasAES && cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VAES && cpu.X86.HasAVX512VPCLMULQDQ && !fips140.Enabled()

const (
	blockLen  = 16
	maxRounds = 14

	// powerCount is the number of blocks that are multiplied, each by its power of the hash key, before the sum of
	// the products is reduced. The assembly code has the same number.
	powerCount = 64
)

// A wide is AES-GCM with one key.
type wide struct {
	keys   [maxRounds + 1][blockLen]byte // of the rounds
	rounds int

	// powers are those of the hash key, the highest one first. They and their products are elements of the field as
	// RFC 8452 has them: GHASH is POLYVAL with the bytes of each block reversed, and a key that is multiplied by x
	// (appendix A there).
	powers [powerCount][blockLen]byte
}

// xorCTR encrypts counter blocks from counter on, and writes their exclusive or with n bytes at src to dst, which
// is src or does not overlap it. The last 32 bits of a block count, as an integer in network byte order.
//
//go:noescape
func xorCTR(keys *[maxRounds + 1][blockLen]byte, rounds int, counter *[blockLen]byte, dst, src *byte, n int)

// hash adds n blocks at data to the sum: for each, sum = (sum + block) * key. The sum's bytes are reversed.
//
//go:noescape
func hash(sum *[blockLen]byte, powers *[powerCount][blockLen]byte, data *byte, n int)

// subWord replaces each byte by that of the S-box of AES.
func subWord(w uint32) uint32

func newWide(key []byte) *wide {
	w := &wide{rounds: len(key)/4 + 6}
	w.expand(key)
	var zero, h [blockLen]byte
	xorCTR(&w.keys, w.rounds, &zero, &h[0], &zero[0], blockLen)
	// The product by x: a shift, and the polynomial x^127 + x^126 + x^121 + 1 instead of the bit that is shifted out.
	high, low := binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])
	carry := -(high >> 63)
	power := &w.powers[powerCount-1]
	binary.LittleEndian.PutUint64(power[:], low<<1^carry&1)
	binary.LittleEndian.PutUint64(power[8:], (high<<1|low>>63)^carry&0xc2<<56)
	for i := powerCount - 2; i >= 0; i-- {
		w.powers[i] = w.powers[i+1]
		hash(&w.powers[i], &w.powers, &zero[0], 1)
	}
	return w
}

// expand makes the keys of the rounds (FIPS 197, 5.2).
func (w *wide) expand(key []byte) {
	n := len(key) / 4
	var words [4 * (maxRounds + 1)]uint32 // the first byte is the lowest
	for i := range n {
		words[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	constant := uint32(1)
	for i := n; i < 4*(w.rounds+1); i++ {
		x := words[i-1]
		switch {
		case i%n == 0:
			x = subWord(bits.RotateLeft32(x, -8)) ^ constant
			constant = constant<<1 ^ constant>>7*0x11b
		case n > 6 && i%n == 4:
			x = subWord(x)
		}
		words[i] = words[i-n] ^ x
	}
	for i, x := range words {
		binary.LittleEndian.PutUint32(w.keys[i/4][i%4*4:], x)
	}
}

// NonceSize implements cipher.AEAD.
func (w *wide) NonceSize() int { return nonceLen }

// Overhead implements cipher.AEAD.
func (w *wide) Overhead() int { return tagLen }

// maxLen is the longest plaintext: the counter of a block has 32 bits, and that of the first block is 2.
const maxLen = (1<<32 - 2) * blockLen

// Seal implements cipher.AEAD.
func (w *wide) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	if len(nonce) != nonceLen || uint64(len(plaintext)) > maxLen {
		panic("aesgcm: wrong length of a nonce or a plaintext")
	}
	all, out := extend(dst, len(plaintext)+tagLen)
	counter := firstCounter(nonce)
	data := out[:len(plaintext)]
	w.crypt(&counter, data, plaintext)
	w.tag(&counter, (*[tagLen]byte)(out[len(plaintext):]), data, additionalData)
	return all
}

var errTag = errors.New("aesgcm: message authentication failed")

// Open implements cipher.AEAD. It checks the tag first, and writes nothing if it is wrong.
func (w *wide) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	if len(nonce) != nonceLen {
		panic("aesgcm: wrong length of a nonce")
	}
	if len(ciphertext) < tagLen || uint64(len(ciphertext)) > maxLen+tagLen {
		return nil, errTag
	}
	data, tag := ciphertext[:len(ciphertext)-tagLen], ciphertext[len(ciphertext)-tagLen:]
	counter := firstCounter(nonce)
	var want [tagLen]byte
	w.tag(&counter, &want, data, additionalData)
	if subtle.ConstantTimeCompare(want[:], tag) != 1 {
		return nil, errTag
	}
	all, out := extend(dst, len(data))
	w.crypt(&counter, out, data)
	return all, nil
}

// firstCounter returns the block that encrypts the tag. Those of the data follow it.
func firstCounter(nonce []byte) (c [blockLen]byte) {
	copy(c[:], nonce)
	c[blockLen-1] = 1
	return c
}

// crypt encrypts or decrypts data.
func (w *wide) crypt(first *[blockLen]byte, dst, src []byte) {
	if len(src) > 0 {
		c := *first
		c[blockLen-1] = 2
		xorCTR(&w.keys, w.rounds, &c, &dst[0], &src[0], len(src))
	}
}

// tag writes the tag of encrypted data and additional data.
func (w *wide) tag(first *[blockLen]byte, tag *[tagLen]byte, data, additional []byte) {
	var sum [blockLen]byte
	var last [2 * blockLen]byte // the end of the data, and the lengths in bits
	binary.BigEndian.PutUint64(last[blockLen:], uint64(len(additional))*8)
	binary.BigEndian.PutUint64(last[blockLen+8:], uint64(len(data))*8)
	if rest := w.add(&sum, additional); len(rest) > 0 {
		var b [blockLen]byte
		copy(b[:], rest)
		hash(&sum, &w.powers, &b[0], 1)
	}
	if rest := w.add(&sum, data); len(rest) > 0 {
		copy(last[:], rest)
		hash(&sum, &w.powers, &last[0], 2)
	} else {
		hash(&sum, &w.powers, &last[blockLen], 1)
	}
	for i := range blockLen / 2 {
		sum[i], sum[blockLen-1-i] = sum[blockLen-1-i], sum[i]
	}
	xorCTR(&w.keys, w.rounds, first, &tag[0], &sum[0], tagLen)
}

// add adds whole blocks to the sum, and returns the bytes behind them.
func (w *wide) add(sum *[blockLen]byte, b []byte) []byte {
	n := len(b) / blockLen
	if n > 0 {
		hash(sum, &w.powers, &b[0], n)
	}
	return b[n*blockLen:]
}

// extend returns dst with room for n more bytes, and that room.
func extend(dst []byte, n int) (all, room []byte) {
	if cap(dst)-len(dst) >= n {
		all = dst[:len(dst)+n]
	} else {
		all = make([]byte, len(dst)+n)
		copy(all, dst)
	}
	return all, all[len(dst):]
}
