package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"

	"softrdma/verbs"
)

// Sentinels for errors.Is.
var (
	ErrBusy         = verbs.ErrBusy                         // the object is in use by others
	ErrClosed       = errors.New("closed")                  // the object was closed or destroyed
	ErrDisconnected = errors.New("connection disconnected") // a side ended the connection
	ErrPrivateData  = errors.New("private data too long")   // see the constants MaxPrivate…
)

// A RejectedError is a peer's refusal.
type RejectedError struct {
	Addr        netip.AddrPort // the peer's
	Code        uint16         // of table 106 (IBTA 12.6.7.2), or in PortSpaceUDP the status of table 120
	Reason      string         // the code in words
	PrivateData []byte         // the peer's, padded with zeros
}

// Error names the peer and the reason.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%v rejected the connection: %s (reason %d)", e.Addr, e.Reason, e.Code)
}

// An UnreachableError is a peer that does not answer.
type UnreachableError struct {
	Addr netip.AddrPort // the peer's
	Err  error          // what was expected and found
}

// Error names the peer and what was missed.
func (e *UnreachableError) Error() string { return fmt.Sprintf("%v is unreachable: %v", e.Addr, e.Err) }

// Unwrap gives the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A ResolveError is an address for which no device, route or host was found.
type ResolveError struct {
	Addr string // as it was given
	Err  error
}

// Error names the address and the cause.
func (e *ResolveError) Error() string { return fmt.Sprintf("resolve %s: %v", e.Addr, e.Err) }

// Unwrap gives the cause.
func (e *ResolveError) Unwrap() error { return e.Err }
