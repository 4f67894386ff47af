package rdmanet

import (
	"fmt"
	"io"

	"softrdma/internal/reason"
	"softrdma/rdmanet/internal/rsocket"
)

// A CutError is the error of a read when the stream stopped without the message
// with which rsockets end it: the peer was killed, its program or machine failed,
// or the connection was cut on its way. The data may be incomplete. It wraps
// io.ErrUnexpectedEOF.
type CutError struct {
	Err error // what ended the connection

	why reason.Detail
}

// Error says what is missing and what ended the connection.
func (e *CutError) Error() string {
	return fmt.Sprintf("%v: %v (see: softrdma explain %v): %v", io.ErrUnexpectedEOF, e.why, e.why.Reason, e.Err)
}

// Unwrap returns io.ErrUnexpectedEOF and Err.
func (e *CutError) Unwrap() []error { return []error{io.ErrUnexpectedEOF, e.Err} }

// cut returns the error for a connection that ended although the peer did not end
// its direction. Only rsockets' own messages end it: the CM's DREQ and the end of
// TCP come from the kernel of a killed process as well, and TLS's close-notify from
// a softrdma device whose connection has failed.
func (c *Conn) cut() error {
	return &CutError{c.err, reason.Detail{Reason: reason.SocketCut, Expected: uint64(rsocket.OpControl), Found: c.rx.Total()}}
}

// Reason returns the name of the reason, SOCKET_CUT. It, Expected and Found
// implement verbs.ReasonError.
func (e *CutError) Reason() string { return e.why.Reason.String() }

// Expected returns the number of the rsockets operation that ends a stream.
func (e *CutError) Expected() uint64 { return e.why.Expected }

// Found returns how many bytes of the stream had arrived.
func (e *CutError) Found() uint64 { return e.why.Found }
