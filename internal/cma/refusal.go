package cma

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"softrdma/internal/adapter"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// Sentinels for errors.Is.
var (
	ErrClosed       = errors.New("event channel closed")
	ErrAddrInUse    = errors.New("address in use")        // EADDRINUSE
	ErrAddrNotAvail = errors.New("address not available") // EADDRNOTAVAIL

	// ErrOver is a connection that has ended meanwhile; the event that says so
	// is behind those already told.
	ErrOver = errors.New("the connection is over")
)

// A StateError is a call that the id's state does not allow.
type StateError struct {
	Op       string
	Expected []State
	Found    State
}

// Error names the call, the states that it wants and the one found.
func (e *StateError) Error() string {
	names := make([]string, len(e.Expected))
	for i, s := range e.Expected {
		names[i] = s.String()
	}
	return fmt.Sprintf("%s: expected an id in state %s, found %v", e.Op, strings.Join(names, " or "), e.Found)
}

// Unwrap gives adapter.ErrClosed where the id's device is gone.
func (e *StateError) Unwrap() error {
	if e.Found == DeviceRemoval {
		return adapter.ErrClosed
	}
	return nil
}

// A PortError is a port that Bind or Listen cannot have.
type PortError struct {
	Space PortSpace
	Addr  netip.AddrPort // asked for
	Owner netip.AddrPort // an id that has it; zero where no port at all is left
	Err   error          // ErrAddrInUse or ErrAddrNotAvail
}

// Error names the port and who has it.
func (e *PortError) Error() string {
	if !e.Owner.IsValid() {
		return fmt.Sprintf("%v %v: %v: every ephemeral port is taken", e.Space, e.Addr, e.Err)
	}
	return fmt.Sprintf("%v %v: %v: an id has %v", e.Space, e.Addr, e.Err, e.Owner)
}

// Unwrap gives ErrAddrInUse or ErrAddrNotAvail.
func (e *PortError) Unwrap() error { return e.Err }

// A PrivateDataError is more private data than the message has room for.
type PrivateDataError struct {
	Message      string
	Limit, Found int // bytes
}

// Error names the message, the limit and the length found.
func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("private data of a %s: expected at most %d bytes, found %d", e.Message, e.Limit, e.Found)
}

// limit tells whether private data fits into a message.
func limit(message string, private []byte, room int) error {
	if len(private) > room {
		return &PrivateDataError{message, room, len(private)}
	}
	return nil
}

// A TimeoutError is a peer that does not answer.
type TimeoutError struct {
	Addr   netip.AddrPort // the peer's
	Detail reason.Detail
}

// Error names the peer and what was missed.
func (e *TimeoutError) Error() string { return fmt.Sprintf("%v: %v", e.Addr, e.Detail) }

// Timeout tells that time has run out.
func (e *TimeoutError) Timeout() bool { return true }

// A RejectedError is a peer's refusal of a connection.
type RejectedError struct {
	Addr        netip.AddrPort // the peer's
	Reason      mad.RejectReason
	PrivateData []byte // the peer's, with the zeroes that fill it up
	Detail      reason.Detail
}

// Error names the peer and its reason in words.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%v rejected the connection: %s (%v, %d)", e.Addr, e.Reason.Words(), e.Reason, uint16(e.Reason))
}

// A LookupError is a peer's refusal of a look-up.
type LookupError struct {
	Addr        netip.AddrPort // the peer's
	Status      mad.SIDRStatus
	PrivateData []byte // the peer's, with the zeroes that fill it up
	Detail      reason.Detail
}

// Error names the peer and its answer in words.
func (e *LookupError) Error() string {
	return fmt.Sprintf("%v refused the look-up: %v (status %d)", e.Addr, e.Status, uint8(e.Status))
}

// A VoidError is a request that cannot be accepted any more.
type VoidError struct {
	Addr netip.AddrPort // the peer's
	Err  error          // what became of it: a *RejectedError where the peer took it back
}

// Error names the peer and what became of its request.
func (e *VoidError) Error() string {
	return fmt.Sprintf("the request of %v is void: %v", e.Addr, e.Err)
}

// Unwrap gives what became of it.
func (e *VoidError) Unwrap() error { return e.Err }
