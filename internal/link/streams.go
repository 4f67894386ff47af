package link

import (
	"errors"
	"net/netip"

	"softrdma/internal/reason"
)

// ErrWouldBlock is returned by a call that would have to wait: Streams.Ready
// tells when it no longer has to.
var ErrWouldBlock = errors.New("would have to wait")

// A Failure is an error of a stream that has a reason of its own.
type Failure struct {
	Detail reason.Detail
	Err    error
}

// Error gives the reason and what lies behind it.
func (f *Failure) Error() string { return f.Detail.String() + ": " + f.Err.Error() }

// Unwrap returns the named reason, which wraps the cause.
func (f *Failure) Unwrap() error { return &reason.Error{Detail: f.Detail, Cause: f.Err} }

// Streams is a link whose peers are connected by streams of bytes, as iWARP
// needs them. It belongs to one lane as every link does: Wait, Wake and Close
// follow Waiter, and one goroutine at a time calls everything else, the streams
// included.
//
// No call but Wait blocks, and no goroutine stands behind one: a call that would
// have to wait returns ErrWouldBlock, and Ready reports once that it can go on.
// The owner of a stream therefore remembers that it is ready until a call returns
// ErrWouldBlock again.
type Streams interface {
	Waiter

	// Local is the link's address. Its port is 0: each listener and stream has its own.
	Local() netip.AddrPort

	// Listen accepts streams on a port of the link's address; port 0 takes any.
	// Owner comes back with Ready.
	Listen(port uint16, backlog int, owner any) (Listener, error)

	// Dial begins to connect to a peer, from a port of the link's address, 0 for
	// any. When the stream is writable, Stream.Connected tells how it went.
	Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (Stream, error)

	// Ready tells what has become ready since the last call, in as many entries
	// of list as it says.
	Ready(list []Readiness) (int, error)
}

// Readiness is what can go on.
type Readiness struct {
	Owner    any
	Readable bool
	Writable bool
	Hangup   bool // the peer's end of the stream, or an error, is to be read
}

// A Listener accepts streams.
type Listener interface {
	// Addr is the address and port.
	Addr() netip.AddrPort

	// Accept takes the next stream, which belongs to owner, or gives
	// ErrWouldBlock.
	Accept(owner any) (Stream, error)

	Close() error
}

// A Stream is a stream of bytes to and from one peer. Closing it takes its
// owner out of what Ready tells from then on.
type Stream interface {
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Connected tells, of a dialled stream that became writable, whether it was
	// connected (nil) or why it was not.
	Connected() error

	// Segment is how many bytes a packet of the stream holds, once it is
	// connected; 0 where the system does not tell.
	Segment() int

	// Read fills pieces in order with what has come, and Write sends them in
	// order, both as far as it goes without waiting: fewer bytes than asked for
	// need not mean that there are no more. Read gives io.EOF at the end of the
	// stream.
	Read(pieces [][]byte) (int, error)
	Write(pieces [][]byte) (int, error)

	// ShutWrite tells the peer that nothing more will be sent.
	ShutWrite() error

	// Close ends the stream; what was written is still sent. Reset ends it with
	// what was not sent void.
	Close() error
	Reset() error
}
