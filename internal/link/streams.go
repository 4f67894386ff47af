package link

import (
	"errors"
	"net/netip"

	"softrdma/internal/reason"
)

// ErrWouldBlock is returned by a call that would have to wait. Streams.Ready reports when
// it can go on.
var ErrWouldBlock = errors.New("would have to wait")

// A Failure is an error of a stream that has a reason of its own.
type Failure struct {
	Detail reason.Detail
	Err    error
}

// Error returns the reason and the underlying error.
func (f *Failure) Error() string { return f.Detail.String() + ": " + f.Err.Error() }

// Unwrap returns the named reason, which wraps the cause.
func (f *Failure) Unwrap() error { return &reason.Error{Detail: f.Detail, Cause: f.Err} }

// Streams is a link whose peers are connected by streams of bytes, as iWARP
// needs them. It belongs to one lane as every link does: Wait, Wake and Close
// follow Waiter, and one goroutine at a time calls everything else, the streams
// included.
//
// No call but Wait blocks: one that would have to wait returns ErrWouldBlock, and Ready
// reports once that it can go on.
// The owner of a stream therefore remembers that it is ready until a call returns
// ErrWouldBlock again.
type Streams interface {
	Waiter

	// Local is the link's address. Its port is 0: each listener and stream has its own.
	Local() netip.AddrPort

	// Listen accepts streams on a port of the link's address; port 0 takes any.
	// Ready returns owner with the listener's readiness.
	Listen(port uint16, backlog int, owner any) (Listener, error)

	// Dial begins to connect to a peer, from a port of the link's address, 0 for
	// any. When the stream is writable, Stream.Connected has the result.
	Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (Stream, error)

	// Ready fills list with what has become ready since the last call, and returns the
	// number of entries.
	Ready(list []Readiness) (int, error)
}

// Readiness says which calls of a stream or listener can go on.
type Readiness struct {
	Owner    any
	Readable bool
	Writable bool
	Hangup   bool // Read will return the end of the stream, or an error
}

// A Listener accepts streams.
type Listener interface {
	// Addr is the address and port.
	Addr() netip.AddrPort

	// Accept takes the next stream, which belongs to owner, or returns
	// ErrWouldBlock.
	Accept(owner any) (Stream, error)

	Close() error
}

// A Stream is a stream of bytes to and from one peer. Once it is closed, Ready does not
// report its owner any more.
type Stream interface {
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Connected returns, for a dialled stream that became writable, nil if it is
	// connected or the reason why not.
	Connected() error

	// Segment is the number of bytes that a packet of the connected stream holds; 0 if
	// unknown.
	Segment() int

	// Read fills pieces in order with what has arrived, and Write sends them in
	// order, both as far as they can without waiting: fewer bytes than asked for
	// need not mean that there are no more. Read returns io.EOF at the end of the
	// stream, and not before Held is 0 or what is held cannot be sent any more: the peer
	// may have ended because it has received all of it.
	Read(pieces [][]byte) (int, error)
	Write(pieces [][]byte) (int, error)

	// Held returns how many of the bytes that Write took are still in this program, which
	// loses them if it ends now. The system has the others. If it is not 0, Ready reports
	// the stream as writable when it has become 0. It never becomes smaller by a failure.
	Held() int

	// ShutWrite tells the peer that nothing more will be sent.
	ShutWrite() error

	// Close ends the stream; what was written is still sent. Reset ends it and discards
	// what was not sent.
	Close() error
	Reset() error
}
