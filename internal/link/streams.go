package link

import (
	"errors"
	"net/netip"

	"softrdma/internal/reason"
)

// ErrWouldBlock is returned by a call that would have to wait. Streams.Ready reports when to
// retry.
var ErrWouldBlock = errors.New("would block")

// A Failure is an error of a stream with a named reason.
type Failure struct {
	Detail reason.Detail
	Err    error
}

// Error returns the reason and the underlying error.
func (f *Failure) Error() string { return f.Detail.String() + ": " + f.Err.Error() }

// Unwrap returns the named reason, which wraps the cause.
func (f *Failure) Unwrap() error { return &reason.Error{Detail: f.Detail, Cause: f.Err} }

// Streams is a link that connects peers by byte streams, as iWARP needs. It belongs to one
// lane as every link does: Wait, Wake and Close follow Waiter, and one goroutine at a time
// makes all other calls, including those of its streams.
//
// Only Wait blocks. Another call that would have to wait returns ErrWouldBlock, and Ready
// reports once when it can continue. The owner of a stream therefore treats it as ready until
// a call returns ErrWouldBlock again.
type Streams interface {
	Waiter

	// Local returns the link's address. Its port is 0: each listener and stream has its own.
	Local() netip.AddrPort

	// Listen accepts streams on a port of the link's address. Port 0 chooses a free one. Ready
	// returns owner with the listener's readiness.
	Listen(port uint16, backlog int, owner any) (Listener, error)

	// Dial begins to connect to a peer, from a port of the link's address. Port 0 chooses one.
	// When the stream is writable, Stream.Connected returns the result.
	Dial(port uint16, dst netip.AddrPort, tos uint8, owner any) (Stream, error)

	// Ready fills list with the streams and listeners that became ready since the last call,
	// and returns the number of entries.
	Ready(list []Readiness) (int, error)
}

// Readiness says which calls of a stream or listener can continue.
type Readiness struct {
	Owner    any
	Readable bool
	Writable bool
	Hangup   bool // Read returns the end of the stream or an error
}

// A Listener accepts streams.
type Listener interface {
	// Addr returns the address and port.
	Addr() netip.AddrPort

	// Accept returns the next stream, which belongs to owner, or ErrWouldBlock.
	Accept(owner any) (Stream, error)

	Close() error
}

// A Stream is a byte stream to and from one peer. After it is closed, Ready no longer reports
// its owner.
type Stream interface {
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Connected returns, for a dialled stream that became writable, nil if it is connected,
	// else the error.
	Connected() error

	// Segment returns the number of bytes in a packet of the connected stream, or 0 if it is
	// unknown.
	Segment() int

	// Read fills pieces in order with received bytes, and Write sends them in order. Both do
	// as much as they can without waiting, so a short count does not mean that the stream has
	// no more. Read returns io.EOF at the end of the stream, but not before Held is 0 or the
	// held bytes can no longer be sent: the peer may have ended the stream because it has
	// received all of them.
	Read(pieces [][]byte) (int, error)
	Write(pieces [][]byte) (int, error)

	// Held returns how many of the bytes passed to Write are still in this program, which
	// would lose them if it ended now. The system has the others. After a result above 0,
	// Ready reports the stream as writable when it becomes 0. A failure does not reduce it.
	Held() int

	// ShutWrite tells the peer that no more data follows.
	ShutWrite() error

	// Close ends the stream after sending what was written. Reset ends it and discards unsent
	// data.
	Close() error
	Reset() error
}

// A Hold reserves what one stream that another process drives takes of this process. The stream's end
// calls release.
type Hold func() (release func(), err error)

// A Mover is a link whose streams can move to another process.
type Mover interface {
	Streams

	// Move ends a stream here without ending it for the peer, and returns a descriptor with which
	// the other process's Adopter continues it.
	Move(s Stream, hold Hold) (fd int, err error)
}

// An Adopter is a link that continues streams of another process.
type Adopter interface {
	Streams

	// Adopt continues a stream that has come with a descriptor, which it owns.
	Adopt(fd int, owner any) (Stream, error)

	// Discard closes a descriptor that no process adopts. Any goroutine may call it.
	Discard(fd int)
}

// A Relayer is a link whose connections stay in this process when their streams move: it relays the
// bytes.
type Relayer interface {
	Mover

	// Relay connects to a peer as Dial does, for a stream of another process whose socket it owns.
	// Any goroutine may call it.
	Relay(fd int, port uint16, dst netip.AddrPort, tos uint8, hold Hold)
}
