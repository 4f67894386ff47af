// Package tagged is the protocol of tagged messages between two workers, above a connection that
// carries frames in order and reads the peer's memory. It decides how a message travels: with
// its bytes in a frame (eager), or announced, so that the receiver reads it from the sender's
// memory when a receive matches (rendezvous).
//
//	sender                               receiver
//	eager    header + bytes ------------------>  matched or kept
//	         <----------------------- credits    when it is matched
//	announce header, key and address --------->  matched or kept
//	         <------------------- READ ---------
//	         <---------------------- finish      the sender's memory is free
//
// A worker keeps the bytes of eager messages that no receive has matched. Credits bound them: each
// peer may have that many unmatched. A sender without credits waits for more. If unmatched
// messages hold all credits, the receiver says that it is full, and the sender announces further
// messages. The number of announced messages is bounded too. Messages between two workers are
// matched in the order in which they were sent.
//
// Every operation ends once: with success, canceled, or with the error with which its peer
// failed. The package does no I/O and reads no clock. One goroutine at a time uses a Worker and
// what belongs to it.
package tagged

import (
	"errors"

	"softrdma/internal/tagmatch"
)

// The errors of operations and frames.
var (
	ErrTruncated = errors.New("message truncated: longer than the receive's buffer")
	ErrCanceled  = errors.New("receive canceled")
	ErrFrame     = errors.New("frame not understood")
	ErrLimit     = errors.New("peer exceeds the limit of unexpected messages")
	ErrVersion   = errors.New("peer has another protocol version")
)

// An Env carries out what a worker decides. Its methods call no method of the worker.
type Env interface {
	// Transmit sends a frame to a peer, in order. It keeps neither header nor payload.
	Transmit(p *Peer, h *Header, payload []byte)

	// Expose lets a peer read the bytes of a message until Conceal, and returns where they are.
	Expose(s *Send) (address uint64, key uint32, err error)
	Conceal(s *Send)

	// Fetch begins to read announced bytes into r.Buffer. The owner calls Fetched at the end.
	Fetch(p *Peer, r *Receive, address uint64, key uint32, n int)

	// Sent and Received report the end of an operation and return it to the owner.
	Sent(s *Send, err error)
	Received(r *Receive, i Info, err error)
}

// A Config is what a worker accepts. Its peers must know it.
type Config struct {
	Eager     int // longest eager message in bytes
	Credits   int // unmatched eager messages of each peer
	Announced int // announced messages of each peer that are not finished
}

// Info describes a message.
type Info struct {
	Tag    uint64
	Length int
	From   *Peer
}

// A Send is a message to send. The owner does not change it or its bytes until Env.Sent.
type Send struct {
	Tag     uint64
	Data    []byte
	Sync    bool // ends when the message was matched; otherwise when Data is free
	Context any

	exposed bool
}

// A Receive is a receive. The owner does not use it or its buffer until Env.Received.
type Receive struct {
	tagmatch.Receive
	Buffer  []byte
	Context any

	fetching *Message // the message that is being read
}

// A Message has arrived and was not received yet. After the receive that takes it has ended it
// is the worker's again.
type Message struct {
	tagmatch.Message
	Info Info

	data   []byte // of an eager message
	header Header
}

// A Worker is one end of many connections, with one matcher for all of them.
type Worker struct {
	env     Env
	config  Config
	matcher tagmatch.Matcher
	spare   []*Message
	in, out Header // the frame that arrives, and the frame to send
}

// New returns a worker without peers.
func New(env Env, c Config) *Worker {
	return &Worker{env: env, config: c}
}
