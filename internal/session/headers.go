package session

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Limits of the headers of a frame.
const (
	MaxHeaders    = 8 << 10 // bytes of all, encoded
	MaxHeader     = 64      // values
	MaxHeaderName = 64      // bytes of a name
	headerPrefix  = 3
)

// AppendHeader appends a value of a header to b. Name and value are within the limits.
//
//	length of the name (1) | length of the value (2) | name | value
func AppendHeader(b []byte, name, value string) []byte {
	b = binary.BigEndian.AppendUint16(append(b, byte(len(name))), uint16(len(value)))
	return append(append(b, name...), value...)
}

// HeaderSize returns how many bytes AppendHeader appends.
func HeaderSize(name, value string) int { return headerPrefix + len(name) + len(value) }

// headerEnds returns the ends of the name and the value of the first header in b, which may
// exceed b.
func headerEnds(b []byte) (name, value int) {
	if len(b) < headerPrefix {
		return headerPrefix, headerPrefix
	}
	name = headerPrefix + int(b[0])
	return name, name + int(binary.BigEndian.Uint16(b[1:]))
}

// Headers returns names and values of the headers in b, which CheckHeaders has accepted.
func Headers(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for len(b) > 0 {
			n, end := headerEnds(b)
			if !yield(b[headerPrefix:n], b[n:end]) {
				return
			}
			b = b[end:]
		}
	}
}

// CheckHeaders checks encoded headers. The error matches ErrProtocol.
func CheckHeaders(b []byte) error {
	if len(b) > MaxHeaders {
		return fmt.Errorf("%w: headers of %d bytes, expected at most %d", ErrProtocol, len(b), MaxHeaders)
	}
	for count := 1; len(b) > 0; count++ {
		n, end := headerEnds(b)
		if len(b) < end {
			return fmt.Errorf("%w: the last header is cut off", ErrProtocol)
		}
		if name := b[headerPrefix:n]; !HeaderName(name) {
			return fmt.Errorf("%w: a header named %q", ErrProtocol, name)
		}
		if count > MaxHeader {
			return fmt.Errorf("%w: more than %d headers", ErrProtocol, MaxHeader)
		}
		b = b[end:]
	}
	return nil
}

// HeaderName reports whether a header may have a name: lower-case letters, digits, and the characters
// minus, underscore and dot.
func HeaderName[T string | []byte](name T) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= MaxHeaderName
}
