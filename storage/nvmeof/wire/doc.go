// Package wire has the formats of NVMe over Fabrics on the RDMA transport: the private data of
// connections, capsules with their entries of 64 and 16 bytes, data descriptors, identify
// structures, log pages, and the names of opcodes and statuses.
//
// Each structure has a parse function, which accepts any bytes and returns a *FormatError for what
// it cannot be, and a method that appends its bytes. All numbers are little-endian. Reserved bytes
// are written as zeros and ignored when parsed.
//
// The package decides nothing: which command is allowed and what it returns is in package
// controller. It does no I/O.
package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// A FormatError says why bytes are not the structure that they should be.
type FormatError struct {
	Structure string // "command", "connect data"
	Field     string // empty if the whole structure is too short
	Want      uint64 // bytes, or the value expected of the field
	Have      uint64
}

// Error returns what was expected and what was found.
func (e *FormatError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("NVMe %s: expected at least %d bytes, found %d", e.Structure, e.Want, e.Have)
	}
	return fmt.Sprintf("NVMe %s: %s: expected %d, found %d", e.Structure, e.Field, e.Want, e.Have)
}

// Reason returns the name NVME_SHORT or NVME_FIELD.
func (e *FormatError) Reason() string {
	if e.Field == "" {
		return "NVME_SHORT"
	}
	return "NVME_FIELD"
}

// Expected returns the expected length or value.
func (e *FormatError) Expected() uint64 { return e.Want }

// Found returns the length or value that was found.
func (e *FormatError) Found() uint64 { return e.Have }

// needs returns an error if b is shorter than a structure.
func needs(b []byte, n int, structure string) error {
	if len(b) < n {
		return &FormatError{Structure: structure, Want: uint64(n), Have: uint64(len(b))}
	}
	return nil
}

// text returns a string that ends with its field or at the first zero byte.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// padded returns a string that is filled with spaces.
func padded(b []byte) string { return string(bytes.TrimRight(b, " \x00")) }

// pad copies s to b and fills the rest with spaces.
func pad(b []byte, s string) {
	for i := copy(b, s); i < len(b); i++ {
		b[i] = ' '
	}
}

// grow appends n zero bytes and returns them, too.
func grow(b []byte, n int) (all, added []byte) {
	all = append(b, make([]byte, n)...)
	return all, all[len(b):]
}
