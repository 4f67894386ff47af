// Package format has what the formats of NVMe over Fabrics share: reading and writing fields, and the
// error of bytes that are not the structure that they should be. All numbers are little-endian.
//
// The packages beside it have the structures. Each has a parse function, which accepts any bytes and
// returns a *format.Error for what it cannot be, and a method that appends its bytes. Reserved bytes
// are written as zeros and ignored when parsed. They decide nothing and do no I/O.
package format

import (
	"bytes"
	"fmt"
)

// An Error says why bytes are not the structure that they should be.
type Error struct {
	Structure string // "command", "connect data"
	Field     string // empty if the whole structure is too short
	Want      uint64 // bytes, or the value expected of the field
	Have      uint64
}

// Error returns what was expected and what was found.
func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("NVMe %s: expected at least %d bytes, found %d", e.Structure, e.Want, e.Have)
	}
	return fmt.Sprintf("NVMe %s: %s: expected %d, found %d", e.Structure, e.Field, e.Want, e.Have)
}

// Reason returns the name NVME_SHORT or NVME_FIELD.
func (e *Error) Reason() string {
	if e.Field == "" {
		return "NVME_SHORT"
	}
	return "NVME_FIELD"
}

// Expected returns the expected length or value.
func (e *Error) Expected() uint64 { return e.Want }

// Found returns the length or value that was found.
func (e *Error) Found() uint64 { return e.Have }

// Needs returns an error if b is shorter than a structure.
func Needs(b []byte, n int, structure string) error {
	if len(b) < n {
		return &Error{Structure: structure, Want: uint64(n), Have: uint64(len(b))}
	}
	return nil
}

// Wrong returns the error of a field with a wrong value.
func Wrong(structure, field string, want, have uint64) *Error {
	return &Error{Structure: structure, Field: field, Want: want, Have: have}
}

// Text returns a string that ends with its field or at the first zero byte.
func Text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// Padded returns a string without the spaces that fill its field.
func Padded(b []byte) string { return string(bytes.TrimRight(b, " \x00")) }

// Pad copies s to b and fills the rest with spaces.
func Pad(b []byte, s string) {
	for i := copy(b, s); i < len(b); i++ {
		b[i] = ' '
	}
}

// Grow appends n zero bytes and returns them, too.
func Grow(b []byte, n int) (all, added []byte) {
	all = append(b, make([]byte, n)...)
	return all, all[len(b):]
}
