package psp

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"

	"softrdma/internal/aesgcm"
)

// MasterLen is the length of a master key in bytes.
const MasterLen = 32

// Phase is the bit of an SPI that says which of the receiver's two master keys belongs to it.
const Phase = 1 << 31

// Derive returns the key of an SPI and a version from the master key that belongs to the SPI: AES-CMAC in counter
// mode (NIST SP 800-108), with the label "Pv0" or "Pv1" for the version, and the SPI as context. Its length is 16 or 32
// bytes.
func Derive(master *[MasterLen]byte, spi uint32, v Version) ([]byte, error) {
	b, err := aes.NewCipher(master[:])
	if err != nil {
		return nil, err
	}
	label, bits := byte('0'), uint32(128)
	switch v {
	case AESGCM128:
	case AESGCM256:
		label, bits = '1', 256
	default:
		return nil, fmt.Errorf("PSP version: expected %d or %d, found %d", AESGCM128, AESGCM256, v)
	}
	key := make([]byte, bits/8)
	for i := range key {
		if i%aes.BlockSize == 0 {
			in := [aes.BlockSize]byte{3: byte(i/aes.BlockSize + 1), 4: 'P', 5: 'v', 6: label}
			binary.BigEndian.PutUint32(in[8:], spi)
			binary.BigEndian.PutUint32(in[12:], bits)
			mac(b, key[i:], &in)
		}
	}
	return key, nil
}

// mac writes the AES-CMAC (RFC 4493) of one whole block.
func mac(b cipher.Block, out []byte, in *[aes.BlockSize]byte) {
	var k [aes.BlockSize]byte
	b.Encrypt(k[:], k[:])
	carry := k[0] >> 7 * 0x87 // the polynomial of the field, without a branch on the key
	for i := range k {
		k[i] <<= 1
		if i+1 < len(k) {
			k[i] |= k[i+1] >> 7
		}
	}
	k[len(k)-1] ^= carry
	for i := range k {
		k[i] ^= in[i]
	}
	b.Encrypt(out, k[:])
}

// A Key protects the packets of one SPI. Any goroutines may use it.
type Key struct {
	spi     uint32
	version Version
	aead    cipher.AEAD
}

// NewKey makes the key of an SPI from the bytes that Derive returned at the receiver.
func NewKey(spi uint32, v Version, key []byte) (*Key, error) {
	want := aes.BlockSize
	if v == AESGCM256 {
		want = 2 * aes.BlockSize
	}
	if v > AESGCM256 || len(key) != want {
		return nil, fmt.Errorf("PSP key: expected version %d or %d and %d bytes, found version %d and %d bytes", AESGCM128, AESGCM256, want, v, len(key))
	}
	aead, err := aesgcm.New(key)
	return &Key{spi, v, aead}, err
}

// SPI returns the SPI that the key belongs to.
func (k *Key) SPI() uint32 { return k.spi }

// nonce is what GCM encrypts a packet under: its SPI and its IV, which are side by side in the header.
func nonce(b []byte) []byte { return b[4:HeaderLen] }

// Seal writes header and integrity check value of a packet and encrypts it, all in place. The packet has
// room for the header in front of what it protects and for the value behind it. SPI and version of the header become
// the key's. The IV has not been used with this key before.
func (k *Key) Seal(b []byte, h *Header) error {
	h.SPI, h.Version = k.spi, k.version
	clear := HeaderLen + h.CryptOffset
	if h.CryptOffset < 0 || h.CryptOffset > MaxCryptOffset || h.CryptOffset%4 != 0 || max(clear, h.Len())+ICVLen > len(b) {
		return fmt.Errorf("PSP packet of %d bytes: expected a crypt offset of whole words within it, found %d", len(b), h.CryptOffset)
	}
	h.Put(b)
	k.aead.Seal(b[clear:clear], nonce(b), b[clear:len(b)-ICVLen], b[:clear])
	return nil
}

// Version returns the version that the key belongs to.
func (k *Key) Version() Version { return k.version }

// Head returns what packets of the key begin with, which are encrypted from their first byte behind the header on and have
// neither a cookie nor an extension: the header up to the IV.
func (k *Key) Head(next uint8) uint64 {
	var b [HeaderLen]byte
	h := Header{Next: next, Version: k.version, SPI: k.spi}
	h.Put(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// OpenTo is Open for a packet that is encrypted from its first byte on behind the header, and has no cookie or extension.
// The packet has the key's SPI and version, and room for the integrity check value. OpenTo leaves it alone and decrypts it to dst,
// which has room and does not overlap it.
func (k *Key) OpenTo(dst, b []byte) ([]byte, error) {
	plain, err := k.aead.Open(dst[:0], nonce(b), b[HeaderLen:], b[:HeaderLen])
	if err != nil {
		return nil, ErrIntegrity
	}
	return plain, nil
}

// ErrIntegrity is the error of a packet that was changed, or was protected with another key.
var ErrIntegrity = errors.New("integrity check value is wrong")

// Open checks and decrypts a packet in place and returns what it protects. The header is the one that Parse returned,
// with its length. The packet's bytes are lost if there is an error.
func (k *Key) Open(b []byte, h *Header, length int) ([]byte, error) {
	if h.SPI != k.spi || h.Version != k.version {
		return nil, fmt.Errorf("PSP packet: expected SPI %#08x and version %d, found %#08x and %d", k.spi, k.version, h.SPI, h.Version)
	}
	clear := HeaderLen + h.CryptOffset
	if _, err := k.aead.Open(b[clear:clear], nonce(b), b[clear:], b[:clear]); err != nil {
		return nil, ErrIntegrity
	}
	return b[length : len(b)-ICVLen], nil
}
