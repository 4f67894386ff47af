package cmid

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// Sentinels for errors.Is.
var (
	ErrClosed       = reason.Sentinel(reason.ObjectDestroyed, "event channel closed")
	ErrDestroyed    = reason.Sentinel(reason.ObjectDestroyed, "id destroyed")
	ErrAddrInUse    = reason.Sentinel(reason.IDPort, "address in use")        // EADDRINUSE
	ErrAddrNotAvail = reason.Sentinel(reason.IDPort, "address not available") // EADDRNOTAVAIL

	// ErrOver means that the connection has ended. The event that reports the end is queued
	// behind the delivered events.
	ErrOver = reason.Sentinel(reason.Disconnected, "the connection is over")
)

// A StateError is a call that is not allowed in the state of the id.
type StateError struct {
	Op       string
	Expected []State
	Found    State
}

// Error names the call, the states that allow it and the state found.
func (e *StateError) Error() string {
	names := make([]string, len(e.Expected))
	for i, s := range e.Expected {
		names[i] = s.String()
	}
	return fmt.Sprintf("%s: expected an id in state %s, found %v", e.Op, strings.Join(names, " or "), e.Found)
}

// Unwrap returns object.ErrClosed if the id has lost its device, else the named reason.
func (e *StateError) Unwrap() error {
	if e.Found == DeviceRemoval {
		return object.ErrClosed
	}
	return reason.Detail{Reason: reason.IDState, Expected: uint64(e.Expected[0]), Found: uint64(e.Found)}.Err()
}

// A PortError is a port that Bind or Listen cannot get.
type PortError struct {
	Space PortSpace
	Addr  netip.AddrPort // requested
	Owner netip.AddrPort // an id that has it; zero if all ports are in use
	Err   error          // ErrAddrInUse or ErrAddrNotAvail
}

// Error names the port and its owner.
func (e *PortError) Error() string {
	if !e.Owner.IsValid() {
		return fmt.Sprintf("%v %v: %v: every ephemeral port is taken", e.Space, e.Addr, e.Err)
	}
	return fmt.Sprintf("%v %v: %v: an id has %v", e.Space, e.Addr, e.Err, e.Owner)
}

// Unwrap returns the named reason, which wraps ErrAddrInUse or ErrAddrNotAvail.
func (e *PortError) Unwrap() error {
	d := reason.Detail{Reason: reason.IDPort, Expected: uint64(e.Addr.Port()), Found: uint64(e.Owner.Port())}
	return &reason.Error{Detail: d, Cause: e.Err}
}

// A PrivateDataError is private data that is longer than its message's field.
type PrivateDataError struct {
	Message      string
	Limit, Found int // bytes
}

// Error names the message, the limit and the length found.
func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("private data of a %s: expected at most %d bytes, found %d", e.Message, e.Limit, e.Found)
}

// Unwrap returns the named reason.
func (e *PrivateDataError) Unwrap() error {
	return reason.Detail{Reason: reason.CMPrivateData, Expected: uint64(e.Limit), Found: uint64(e.Found)}.Err()
}

// CheckPrivate returns a *PrivateDataError unless the private data fits into the
// field of a message, which has limit bytes.
func CheckPrivate(message string, private []byte, limit int) error {
	if len(private) > limit {
		return &PrivateDataError{message, limit, len(private)}
	}
	return nil
}

// A TimeoutError means that a peer does not answer.
type TimeoutError struct {
	Addr   netip.AddrPort // the peer's
	Detail reason.Detail
}

// Error names the peer and the missing answer.
func (e *TimeoutError) Error() string { return fmt.Sprintf("%v: %v", e.Addr, e.Detail) }

// Unwrap returns the named reason. It wraps the errno by which the network
// reported that the peer is unreachable, or ECONNREFUSED if the peer does not trust this end.
func (e *TimeoutError) Unwrap() error {
	x := &reason.Error{Detail: e.Detail}
	switch e.Detail.Reason {
	case reason.SendRefused, reason.SendUnreachable:
		x.Cause = syscall.Errno(e.Detail.Found)
	case reason.TLSHandshake:
		x.Cause = syscall.ECONNREFUSED
	}
	return x
}

// Timeout returns true, as for a net.Error that is a timeout.
func (e *TimeoutError) Timeout() bool { return true }

// A RejectedError is a peer's rejection of a connection.
type RejectedError struct {
	Addr        netip.AddrPort // the peer's
	Reason      mad.RejectReason
	PrivateData []byte // the peer's, padded with zeros
	Detail      reason.Detail
	Said        reason.Detail // the peer's own reason, if it says so
}

// Error names the peer and its reason in words.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%v rejected the connection: %s (%v, %d)%s", e.Addr, e.Reason.Words(), e.Reason, uint16(e.Reason), e.Said.AfterOwn())
}

// Unwrap returns the named reason, or nil if the peer gave none.
func (e *RejectedError) Unwrap() error { return e.Detail.Err() }

// A LookupError is a peer's refusal of a lookup (service ID resolution, IBTA
// 12.11).
type LookupError struct {
	Addr        netip.AddrPort // the peer's
	Status      mad.SIDRStatus
	PrivateData []byte // the peer's, padded with zeros
	Detail      reason.Detail
}

// Error names the peer and its answer in words.
func (e *LookupError) Error() string {
	return fmt.Sprintf("%v refused the lookup: %v (status %d)", e.Addr, e.Status, uint8(e.Status))
}

// Unwrap returns the named reason, or nil if the peer gave none.
func (e *LookupError) Unwrap() error { return e.Detail.Err() }

// A VoidError means that a request can no longer be accepted.
type VoidError struct {
	Addr netip.AddrPort // the peer's
	Err  error          // the reason: a *RejectedError if the peer withdrew it
}

// Error names the peer and what happened to its request.
func (e *VoidError) Error() string {
	return fmt.Sprintf("the request of %v is void: %v", e.Addr, e.Err)
}

// Unwrap returns the reason.
func (e *VoidError) Unwrap() error { return e.Err }

// A QKeyError is a second Q_Key for an id, whose queue pair can have only one.
type QKeyError struct{ Expected, Found uint32 }

// Error names both Q_Keys.
func (e *QKeyError) Error() string { return e.Detail().String() }

// Unwrap returns the named reason.
func (e *QKeyError) Unwrap() error { return e.Detail().Err() }

// Detail returns the named reason.
func (e *QKeyError) Detail() reason.Detail {
	return reason.Detail{Reason: reason.CMQKey, Expected: uint64(e.Expected), Found: uint64(e.Found)}
}

// A StreamError means that a TCP stream could not be set up.
type StreamError struct {
	Addr   netip.AddrPort // the peer's
	Detail reason.Detail
	Err    error // the cause, or nil
}

// Error names the peer and what went wrong.
func (e *StreamError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: %v", e.Addr, e.Err)
	}
	return fmt.Sprintf("%v: %v", e.Addr, e.Detail)
}

// Unwrap returns the named reason, which wraps the cause.
func (e *StreamError) Unwrap() error { return &reason.Error{Detail: e.Detail, Cause: e.Err} }
