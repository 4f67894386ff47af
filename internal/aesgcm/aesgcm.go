// Package aesgcm encrypts and authenticates by AES-GCM (NIST SP 800-38D), with nonces of 12 bytes and tags of 16.
//
// On processors with wide instructions for AES and for products of polynomials (VAES and VPCLMULQDQ of 512 bits) it
// takes little more than half the time of crypto/cipher for packets of 4 KiB. Elsewhere, and in FIPS 140 mode, it is
// crypto/cipher. Neither the time nor the memory accesses of the wide code depend on keys or data.
//
// The package decides nothing about keys and nonces.
package aesgcm

import (
	"crypto/aes"
	"crypto/cipher"
)

const (
	nonceLen = 12
	tagLen   = 16
)

// New returns AES-GCM with a key of 16 or 32 bytes. Any goroutines may use it.
func New(key []byte) (cipher.AEAD, error) {
	if usable && (len(key) == 16 || len(key) == 32) {
		return newWide(key), nil
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}
