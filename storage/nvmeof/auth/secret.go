// Package auth authenticates hosts and controllers of NVMe over Fabrics by DH-HMAC-CHAP (base 2.0,
// 8.13): each proves that it knows a secret without sending it. The package has the secrets and both
// sides of the exchange, and does no I/O. Package storage/nvmeof/wire/dhchap has the messages.
package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"softrdma/storage/nvmeof/wire/dhchap"
)

// A Secret is a key that a host and a controller share. The zero value is none. Its text is never
// printed by String.
type Secret struct {
	hash dhchap.Hash // that binds the key to its owner's name, 0: none
	key  string
}

const secretPrefix = "DHHC-1:"

// ParseSecret parses a secret in the form that nvme gen-dhchap-key prints:
// DHHC-1:HH:BASE64:, where HH is 00, or the hash 01, 02 or 03, and the data is a key of 32, 48 or 64
// bytes with its CRC-32. An error does not contain the secret.
func ParseSecret(text string) (Secret, error) {
	rest, ok := strings.CutPrefix(text, secretPrefix)
	fields := strings.Split(rest, ":")
	if !ok || len(fields) != 3 || fields[2] != "" {
		return Secret{}, fmt.Errorf("secret: expected the form %sHH:BASE64: of nvme gen-dhchap-key", secretPrefix)
	}
	var s Secret
	if len(fields[0]) != 2 || fields[0][0] != '0' || fields[0][1] < '0' || fields[0][1] > '3' {
		return Secret{}, errors.New("secret: expected hash 00, 01, 02 or 03 before the key") // what is there may be the key
	}
	s.hash = dhchap.Hash(fields[0][1] - '0')
	b, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return Secret{}, errors.New("secret: expected base64 between the colons")
	}
	const sumLen = 4
	switch len(b) - sumLen {
	case 32, 48, 64:
	default:
		return Secret{}, fmt.Errorf("secret: expected a key of 32, 48 or 64 bytes, found %d", max(len(b)-sumLen, 0))
	}
	key, sum := b[:len(b)-sumLen], binary.LittleEndian.Uint32(b[len(b)-sumLen:])
	if crc32.ChecksumIEEE(key) != sum {
		return Secret{}, errors.New("secret: its checksum is wrong: was it copied whole?")
	}
	s.key = string(key)
	return s, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == "" }

// String says that there is a secret, and not which.
func (s Secret) String() string {
	if s.IsZero() {
		return "no secret"
	}
	return secretPrefix + "…"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// bound returns the key that the owner of a qualified name uses (base 2.0, 8.13.5.7).
func (s Secret) bound(nqn string) []byte {
	if s.hash == 0 {
		return []byte(s.key)
	}
	return mac(s.hash, []byte(s.key), []byte(nqn), []byte("NVMe-over-Fabrics"))
}

// mac returns the HMAC of some parts.
func mac(h dhchap.Hash, key []byte, parts ...[]byte) []byte {
	m := hmac.New(h.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
