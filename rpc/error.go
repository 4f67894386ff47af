package rpc

import (
	"context"
	"errors"
	"fmt"

	"softrdma/internal/session"
)

// The errors of clients and servers. Those of calls are an *Error with a Code.
var (
	// ErrClosed is matched by errors about a client, server or stream that the program has closed.
	ErrClosed = errors.New("rpc: closed")
	// ErrBusy is matched if all slots or bytes of the session are in use and ClientConfig.NoWait
	// is set.
	ErrBusy = errors.New("rpc: as many calls in flight as the server allows")
	// ErrUnreachable is matched if no server answers at the address within
	// ClientConfig.ReconnectTimeout.
	ErrUnreachable = errors.New("rpc: the server cannot be reached")
	// ErrOutcomeUnknown is matched if the server has lost the session, usually because it was
	// started again, while the call was in flight: the call may have been executed once, or
	// not.
	ErrOutcomeUnknown = errors.New("rpc: the server has lost the session: it is unknown whether the call was carried out")
	// ErrVersion is matched at both ends if the other end has another version of the protocol.
	ErrVersion = session.ErrVersion
	// ErrPeer is matched at both ends if the other end does not use package rpc.
	ErrPeer = session.ErrPeer
	// ErrProtocol is matched if the other end breaks the protocol. The connection ends.
	ErrProtocol = session.ErrProtocol
	// ErrRails is matched if the addresses that a client was given are not those of one server
	// whose sessions may have several devices.
	ErrRails = errors.New("rpc: the addresses are not those of one server with ServerConfig.Rails")
	// ErrSessions is matched if a server has as many sessions or connections as it may have.
	ErrSessions = errors.New("rpc: the server has as many sessions as it may have")
)

// errUnsent is the error of a call that no server has got. It is made again on another session.
var errUnsent = errors.New("rpc: the session ended before the call was sent")

// A Code is why a call failed. The numbers up to Unauthenticated are those of gRPC. A Code is an
// error, so that errors.Is(err, rpc.NotFound) works for the error of a call.
type Code uint32

// The codes that handlers return. Canceled and DeadlineExceeded also match the errors of package
// context.
const (
	OK                 Code = 0
	Canceled           Code = 1
	Unknown            Code = 2 // of errors that have no code
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13 // also of handlers that panic
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

// The codes of the package.
const (
	UnknownService Code = 100 + iota
	UnknownMethod
	WrongCodec // client and server have different codecs for the method
	WrongKind  // a one-way method was called, or a stream as a method
	TooLarge   // a body is longer than the other end accepts
	BadBody    // a body cannot be encoded or decoded
	Draining   // the server ends; the call was not begun
)

var codeNames = map[Code]string{
	OK: "ok", Canceled: "canceled", Unknown: "unknown", InvalidArgument: "invalid argument", DeadlineExceeded: "deadline exceeded",
	NotFound: "not found", AlreadyExists: "already exists", PermissionDenied: "permission denied", ResourceExhausted: "resource exhausted",
	FailedPrecondition: "failed precondition", Aborted: "aborted", OutOfRange: "out of range", Unimplemented: "unimplemented",
	Internal: "internal error", Unavailable: "unavailable", DataLoss: "data loss", Unauthenticated: "unauthenticated",
	UnknownService: "unknown service", UnknownMethod: "unknown method", WrongCodec: "wrong codec", WrongKind: "wrong kind of method",
	TooLarge: "body too large", BadBody: "malformed body", Draining: "the server is draining",
}

// String returns the code in words.
func (c Code) String() string {
	if s := codeNames[c]; s != "" {
		return s
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// Error returns the code in words.
func (c Code) Error() string { return "rpc: " + c.String() }

// An Error is the result of a call that failed. Handlers return one to choose the code.
type Error struct {
	Code    Code
	Message string // at most 1024 bytes reach the client
}

// maxMessage bounds the message of an error in bytes.
const maxMessage = 1024

// Errorf returns an *Error.
func Errorf(c Code, format string, args ...any) error {
	return &Error{c, fmt.Sprintf(format, args...)}
}

// Error returns the code and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + ": " + e.Message
}

// Is reports whether target is the error's code, or an error of package context that means the
// same.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Code == Canceled
	case context.DeadlineExceeded:
		return e.Code == DeadlineExceeded
	}
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code of an error: OK of nil, Unknown of errors without one.
func CodeOf(err error) Code {
	var e *Error
	var c Code
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &c):
		return c
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Unknown
}

// result returns the code and the message of a handler's error for the peer.
func result(err error) (Code, string) {
	c := CodeOf(err)
	text := err.Error()
	switch err := err.(type) {
	case *Error:
		text = err.Message
	case Code:
		text = ""
	}
	if c == OK { // a handler's own mistake
		c = Unknown
	}
	return c, text[:min(len(text), maxMessage)]
}

// errReturned is the error of a handler's context after the handler has returned.
var errReturned = fmt.Errorf("rpc: the handler has returned: %w", context.Canceled)
