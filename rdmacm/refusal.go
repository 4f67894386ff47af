package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// Sentinels for errors.Is.
var (
	ErrBusy         = verbs.ErrBusy                                     // the object is in use by others
	ErrClosed       = reason.Sentinel(reason.ObjectDestroyed, "closed") // the object was closed or destroyed
	ErrDisconnected = errors.New("connection disconnected")             // a side ended the connection
	ErrPrivateData  = errors.New("private data too long")               // see the constants MaxPrivate…
	ErrAddrInUse    = cmid.ErrAddrInUse                                 // another id has the port
	ErrAddrNotAvail = cmid.ErrAddrNotAvail                              // no port is left

	// ErrRequestVoid is wrapped if a request cannot be accepted: the peer has
	// given up, or asked for what no queue pair can do.
	ErrRequestVoid = errors.New("the request is void")
)

// A RejectedError is a peer's rejection of a connection, or of a lookup.
type RejectedError struct {
	Addr        netip.AddrPort // the peer's
	Code        uint16         // of IBTA 12.6.7.2, or in PortSpaceUDP the status of IBTA 12.11.2
	Reason      string         // the code in words
	PrivateData []byte         // the peer's, padded with zeros

	why, said reason.Detail
}

// Peer returns why a softrdma peer rejected the connection beyond the code, nil if it does not say so.
// It is what the peer claims.
func (e *RejectedError) Peer() verbs.ReasonError { return claimed(e.said) }

// claimed returns what a peer says as an error, nil if it says nothing.
func claimed(said reason.Detail) verbs.ReasonError {
	if said.Reason == reason.None {
		return nil
	}
	return &reason.Error{Detail: said, Text: said.Said()}
}

// Unwrap returns the named reason (verbs.ReasonError), or nil if there is none.
func (e *RejectedError) Unwrap() error { return e.why.Err() }

// Error names the peer and the reason.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%v rejected the connection: %s (reason %d)%s", e.Addr, e.Reason, e.Code, e.said.AfterOwn())
}

// An UnreachableError is the error when a peer does not answer. It wraps a
// syscall.Errno if the cause is known: syscall.ECONNREFUSED if no RDMA device is open on
// the host, or if the peer encrypts and does not trust this end (TLS_HANDSHAKE), and
// syscall.EHOSTUNREACH and others if the host cannot be reached.
type UnreachableError struct {
	Addr netip.AddrPort // the peer's
	Err  error          // the missing answer, or the network's report
}

// Error names the peer and the cause.
func (e *UnreachableError) Error() string { return fmt.Sprintf("%v is unreachable: %v", e.Addr, e.Err) }

// Unwrap returns the cause, which has a named reason (verbs.ReasonError).
func (e *UnreachableError) Unwrap() error { return e.Err }

// A ResolveError means that no device, route or host was found for an address.
type ResolveError struct {
	Addr string // as the caller gave it
	Err  error
}

// Error names the address and the cause.
func (e *ResolveError) Error() string { return fmt.Sprintf("resolve %s: %v", e.Addr, e.Err) }

// Unwrap returns the cause, which has a named reason (verbs.ReasonError).
func (e *ResolveError) Unwrap() error { return e.Err }

// Timeout implements net.Error. It reports whether the time limit was reached without a report
// that the peer is unreachable or has refused this end.
func (e *UnreachableError) Timeout() bool { return !errors.As(e.Err, new(syscall.Errno)) }

// public converts a manager's error to an error of this package.
func public(err error) error {
	var reject *cmid.RejectedError
	var lookup *cmid.LookupError
	var late *cmid.TimeoutError
	var security *registry.TLSError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reject):
		return &RejectedError{reject.Addr, uint16(reject.Reason), reject.Reason.Words(), reject.PrivateData, reject.Detail, reject.Said}
	case errors.As(err, &lookup):
		return &RejectedError{lookup.Addr, uint16(lookup.Status), lookup.Status.String(), lookup.PrivateData, lookup.Detail, reason.Detail{}}
	case errors.As(err, &late):
		return &UnreachableError{late.Addr, late.Unwrap()}
	case errors.As(err, &security):
		return &SecurityError{Device: deviceName(security.At), TLS: security.TLS}
	case errors.Is(err, cmid.ErrDestroyed), errors.Is(err, cmid.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// resolveError returns a *ResolveError. Its cause has a named reason; by default it is that
// the address is unreachable.
func resolveError(addr string, err error) error {
	if !errors.As(err, new(verbs.ReasonError)) {
		err = &reason.Error{Detail: reason.Detail{Reason: reason.AddressUnreachable}, Text: err.Error(), Cause: err}
	}
	return &ResolveError{Addr: addr, Err: err}
}

// waitEnded returns the error of a call that its context has ended. It wraps the
// context's error.
func waitEnded(ctx context.Context) error {
	err := ctx.Err()
	return &reason.Error{Detail: reason.Detail{Reason: reason.WaitEnded, Expected: 1}, Text: err.Error(), Cause: err}
}

// disconnected returns the error of a connection that a side has ended. It wraps
// ErrDisconnected.
func disconnected(by any, said reason.Detail) error {
	return &DisconnectedError{said, reason.Error{
		Detail: reason.Detail{Reason: reason.Disconnected, Expected: uint64(cmid.Connect), Found: uint64(cmid.Disconnect)},
		Text:   fmt.Sprintf("%v by %v%s", ErrDisconnected, by, said.AfterOwn()),
		Cause:  ErrDisconnected,
	}}
}

// unanswered returns the error of a connection that has ended because the peer did not answer, and err says how. It wraps
// ErrDisconnected.
func unanswered(err error) error {
	x := reason.Error{Detail: reason.Detail{Reason: reason.Disconnected}, Text: fmt.Sprintf("%v: %v", ErrDisconnected, err), Cause: ErrDisconnected}
	if own := (*reason.Error)(nil); errors.As(err, &own) {
		x.Detail = own.Detail
	}
	return &DisconnectedError{own: x}
}

// A DisconnectedError is the end of a connection, by one of its sides or because the peer is silent. It wraps ErrDisconnected.
type DisconnectedError struct {
	said reason.Detail
	own  reason.Error
}

// Error names the side that ended the connection, and why a softrdma peer says that it did.
func (e *DisconnectedError) Error() string { return e.own.Error() }

// Unwrap returns the named reason (verbs.ReasonError), which wraps ErrDisconnected.
func (e *DisconnectedError) Unwrap() error { return &e.own }

// Peer returns why a softrdma peer ended the connection, nil if it did not or does not say so. It is
// what the peer claims.
func (e *DisconnectedError) Peer() verbs.ReasonError { return claimed(e.said) }
