package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCall says that a message is not a call of ONC RPC.
var ErrCall = errors.New("message is not an ONC RPC call")

// maxAuth is how long credentials may be (RFC 5531 8.2), bytes.
const maxAuth = 400

// A Call is the header of an ONC RPC call (RFC 5531 9).
type Call struct {
	XID                         uint32
	Program, Version, Procedure uint32
	Arguments                   int // where they begin in the message, bytes
}

// ParseCall parses the header of a call.
func ParseCall(b []byte) (c Call, err error) {
	if len(b) < 40 {
		return c, fmt.Errorf("%w: expected at least 40 bytes, found %d", ErrCall, len(b))
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if word(1) != 0 {
		return c, fmt.Errorf("%w: expected message type 0, found %d", ErrCall, word(1))
	}
	if word(2) != 2 {
		return c, fmt.Errorf("%w: expected RPC version 2, found %d", ErrCall, word(2))
	}
	c = Call{XID: word(0), Program: word(3), Version: word(4), Procedure: word(5), Arguments: 24}
	for range 2 { // credentials, verifier
		if len(b) < c.Arguments+8 {
			return c, fmt.Errorf("%w: credentials end after %d bytes", ErrCall, len(b))
		}
		n := binary.BigEndian.Uint32(b[c.Arguments+4:])
		if n > maxAuth || len(b) < c.Arguments+8+Pad(int(n)) {
			return c, fmt.Errorf("%w: credentials of %d bytes in a message of %d", ErrCall, n, len(b))
		}
		c.Arguments += 8 + Pad(int(n))
	}
	return c, nil
}

// Pad returns the length of n bytes in XDR, which is a multiple of 4.
func Pad(n int) int { return (n + 3) &^ 3 }
