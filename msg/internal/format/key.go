package format

import (
	"encoding/binary"
	"errors"
	"fmt"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// ErrKey is matched by errors about bytes that are not the key of a region.
var ErrKey = errors.New("not a region's key")

// The errors of accesses to the region of a key.
var (
	ErrRights    = errors.New("access not allowed by the region's key")
	ErrBounds    = errors.New("access outside of the region")
	ErrAlignment = errors.New("atomic operation not aligned")
	ErrTooLong   = errors.New("message too long")
)

// The rights of a key, as bits.
const (
	AllowGet uint8 = 1 << iota
	AllowPut
	AllowAtomic
	AllRights = AllowGet | AllowPut | AllowAtomic
)

// keyMagic begins the keys of regions.
const keyMagic = "softrdma key"

// keyVersion is the version of the format of keys. It follows the magic in every version.
const keyVersion = 1

const keyLen = len(keyMagic) + 1 + 1 + 8 + 8 + 8 + 4

// keyBigEndian is the bit in a key's flags that says that the region's words are big-endian.
const keyBigEndian = 1 << 7

// A Key names a region to peers.
//
//	magic (12 bytes) | version (1) | flags (1) | worker (8) | address (8) | length (8)
//	R_Key (4) for each of the worker's devices
//
// The flags are the rights, and keyBigEndian.
type Key struct {
	Rights    uint8
	BigEndian bool
	Worker    uint64
	Address   uint64
	Length    uint64
	Keys      []uint32
}

// Bytes returns the key as peers get it.
func (k *Key) Bytes() []byte {
	flags := k.Rights
	if k.BigEndian {
		flags |= keyBigEndian
	}
	b := append([]byte(keyMagic), keyVersion, flags)
	b = binary.BigEndian.AppendUint64(b, k.Worker)
	b = binary.BigEndian.AppendUint64(b, k.Address)
	b = binary.BigEndian.AppendUint64(b, k.Length)
	for _, x := range k.Keys {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

// ParseKey reads a key.
func ParseKey(b []byte) (k Key, err error) {
	switch n := len(keyMagic); {
	case len(b) <= n || string(b[:n]) != keyMagic:
		return k, fmt.Errorf("%w: expected %q at its beginning", ErrKey, keyMagic)
	case b[n] != keyVersion:
		return k, fmt.Errorf("%w: key of version %d, expected %d", message.ErrVersion, b[n], keyVersion)
	case len(b) < keyLen || len(b) > keyLen+4*(message.MaxRails-1) || len(b)%4 != keyLen%4:
		return k, fmt.Errorf("%w: %d bytes, expected %d", ErrKey, len(b), keyLen)
	default:
		b = b[n+1:]
	}
	if b[0]&^(AllRights|keyBigEndian) != 0 {
		return k, fmt.Errorf("%w: unknown flags %#x", ErrKey, b[0])
	}
	k.Rights, k.BigEndian = b[0]&AllRights, b[0]&keyBigEndian != 0
	b = b[1:]
	k.Worker = binary.BigEndian.Uint64(b)
	k.Address = binary.BigEndian.Uint64(b[8:])
	k.Length = binary.BigEndian.Uint64(b[16:])
	for b := b[24:]; len(b) > 0; b = b[4:] {
		k.Keys = append(k.Keys, binary.BigEndian.Uint32(b))
	}
	if k.Length > verbs.MaxRegionLength || k.Address+k.Length < k.Address {
		return k, fmt.Errorf("%w: %d bytes at %#x", ErrKey, k.Length, k.Address)
	}
	return k, nil
}

// Check returns why an access of n bytes of the region at offset, which needs a right, is impossible.
func (k *Key) Check(right uint8, offset, n int) error {
	switch {
	case k.Rights&right == 0:
		return fmt.Errorf("%w: it has rights %#x, the access needs %#x", ErrRights, k.Rights, right)
	case offset < 0 || uint64(offset) > k.Length || uint64(n) > k.Length-uint64(offset):
		return fmt.Errorf("%w: %d bytes at %d, the region has %d", ErrBounds, n, offset, k.Length)
	case n > verbs.MaxMessage:
		return fmt.Errorf("%w: %d bytes, expected at most %d", ErrTooLong, n, verbs.MaxMessage)
	}
	return nil
}

// Word returns the address of the aligned 64 bits on which an atomic operation at offset is executed,
// and by how many bits the operation's word is shifted in them. A narrow word has 32 bits.
func (k *Key) Word(offset int, narrow bool) (address uint64, shift uint8, err error) {
	n := 8
	if narrow {
		n = 4
	}
	if err := k.Check(AllowAtomic, offset, n); err != nil {
		return 0, 0, err
	}
	at := k.Address + uint64(offset)
	if at%uint64(n) != 0 {
		return 0, 0, fmt.Errorf("%w: %d bits at address %#x", ErrAlignment, 8*n, at)
	}
	address = at &^ 7
	if address < k.Address || address+8 > k.Address+k.Length {
		return 0, 0, fmt.Errorf("%w: the aligned 64 bits around offset %d", ErrBounds, offset)
	}
	if narrow && (at != address) != k.BigEndian {
		shift = 32
	}
	return address, shift, nil
}
