// Package message is the protocol of messages between two workers, above a connection that
// carries frames in order and reads the peer's memory. It decides how a message travels: with
// its bytes in a frame (eager), or announced, so that the receiver reads it from the sender's
// memory (rendezvous).
//
//	sender                               receiver
//	eager    header + bytes ------------------>  matched or kept
//	         <----------------------- credits    when it is matched
//	announce header, key and address --------->  matched or kept
//	         <------------------- READ ---------
//	         <---------------------- finish      the sender's memory is free
//
// A receiver with Config.Put does not read. It says where the data goes, and the sender writes
// it:
//
//	announce header ---------------------------> matched or kept
//	         <------ accept: key and address     its memory is open to the sender
//	         ------- WRITE, written ----------->  it is closed again
//
// Tagged messages are matched with receives, between two workers in the order in which they
// were sent. A worker keeps eager messages until a receive matches them. Credits limit how
// many unmatched messages each peer may have. A sender without credits waits for more. If
// unmatched messages hold all credits, the receiver reports that it is full, and the sender
// announces further messages. The number of announced messages is limited too.
//
// Active messages name a handler instead, and are handled in the order in which they were
// sent. They have separate credits, which return when the receiver is done with the message,
// so waiting tagged messages do not delay them.
//
// Data of a stream travels in frames as well. The receiver keeps data that no receive waits
// for, up to a window of bytes, and returns the window when the data is read.
//
// Every operation ends once: with success, canceled, or with the error with which its peer
// failed. The package does no I/O and reads no clock. One goroutine at a time uses a Worker
// and its operations.
package message

import (
	"errors"

	"softrdma/internal/tagmatch"
)

// The errors of operations and frames.
var (
	ErrTruncated = errors.New("message truncated: longer than the receive's buffer")
	ErrCanceled  = errors.New("receive canceled")
	ErrFrame     = errors.New("invalid frame")
	ErrLimit     = errors.New("peer exceeds a limit of this worker")
	ErrVersion   = errors.New("peer has another protocol version")
	ErrHandler   = errors.New("the peer has no handler for the active message")
)

// An Env executes a worker's decisions. Its methods call no method of the worker.
type Env interface {
	// Transmit sends a frame to a peer, in order. It keeps neither header nor the payload in
	// pieces.
	Transmit(p *Peer, h *Header, payload [][]byte)

	// Expose lets a peer read the bytes of a message until Conceal. It appends their places to
	// a list, as at most MaxSegments nonempty pieces.
	Expose(p *Peer, s *Send, list []Segment) ([]Segment, error)
	Conceal(s *Send)

	// Fetch begins to read announced data into r.Buffer. The owner calls Fetched at the end.
	// The list of pieces is valid until then.
	Fetch(p *Peer, r *Receive, from []Segment)

	// Writes reports whether a peer writes announced data rather than this worker reads it. It is not asked
	// if all peers do.
	Writes(p *Peer) bool

	// Admit lets a peer write the bytes of a message to r.Buffer until Received. It appends
	// their places to a list, as Expose does.
	Admit(p *Peer, r *Receive, length int, list []Segment) ([]Segment, error)

	// Store begins to write the bytes of a message to a peer's memory. The list of pieces is
	// valid during the call. The owner calls Stored at the end. Store reports whether frames
	// sent later arrive after the bytes.
	Store(p *Peer, s *Send, to []Segment) (ordered bool)

	// Sent and Received report the end of an operation and return it to the owner.
	Sent(s *Send, err error)
	Received(r *Receive, i Info, err error)

	// Rejected returns the error of a send whose announced data the peer's owner has rejected.
	Rejected(reason uint32) error

	// Active handles an active message, and reports whether there is a handler for it. If so,
	// the owner keeps a copy of *a, and calls Worker.ReleaseActive. Header and data stay until
	// Over where the owner has put them, or in the frame, whose memory belongs to the owner
	// again with Over.
	Active(a *Active) bool
	Over(a *Active)
}

// A Config holds a worker's limits. Its peers must know it.
type Config struct {
	Eager     int  // longest eager message in bytes
	Credits   int  // unmatched eager messages of each peer
	Announced int  // unfinished announced messages of each peer
	Active    int  // active messages of each peer in progress
	Stream    int  // unread bytes of each peer's stream
	Put       bool // peers write the data of announced messages instead of letting it be read
	Progress  bool // the worker makes progress without its program
}

// Info describes a message.
type Info struct {
	Tag    uint64
	Length int
	From   *Peer
}

// A Class is the class of a message.
type Class uint8

// The classes of messages. Messages of one class between two workers keep their order.
const (
	Tagged Class = iota
	Actives
	Stream
	classes
)

// A Send is a message to send. The owner does not change it or its bytes until Env.Sent.
type Send struct {
	Class   Class
	Tag     uint64   // of a tagged message; an active message's ID
	Header  []byte   // of an active message, at most MaxHeader bytes
	Data    [][]byte // the message in pieces
	Length  int      // of all pieces
	Sync    bool     // ends when the message is matched, instead of when Data is free
	Context any

	Announce bool // do not copy an active message's Data, however short it is

	exposed bool
	offered bool // counted in Peer.offered
	writing bool // a write to the peer's memory is in progress
	written bool // the peer was told that it is written
	number  uint32
	sent    int // bytes of a stream sent so far
}

// A Receive is a receive of a message or of a stream. The owner does not use it or its buffer
// until Env.Received.
type Receive struct {
	tagmatch.Receive
	Buffer  [][]byte // in pieces
	Length  int      // of all pieces
	All     bool     // of a stream: end only when the buffer is full
	Context any

	fetching *Message // the message being read
	filled   int      // of a stream: received bytes
}

// A Message has arrived and was not received yet. It belongs to the worker again when its
// receive has ended.
type Message struct {
	tagmatch.Message
	Info Info

	data     []byte // of an eager message
	header   Header
	segments []Segment // of an announced message
	active   *Active   // the active message that it is the data of
	accepted bool      // the peer writes the data
}

// frames sends frames.
type frames struct {
	env    Env
	config Config
	out    Header   // the frame to send
	parts  [][]byte // of it
}

// transmit sends a frame, with the owed credits.
func (f *frames) transmit(p *Peer, h *Header, payload [][]byte) {
	h.credits, h.active = uint16(p.owed), uint16(p.active.owed) // limited by the configuration
	p.unpaid -= p.owed
	p.active.unpaid -= p.active.owed
	p.owed, p.active.owed = 0, 0
	f.env.Transmit(p, h, payload)
}

// A Worker is one end of many connections, with one matcher for all of them.
type Worker struct {
	frames
	streams
	matcher  tagmatch.Matcher
	spare    []*Message
	in       Header    // the arriving frame
	list     []Segment // of the arriving frame, or to send
	tail     []byte    // list, encoded
	arriving Active    // for Env.Active
}

// New returns a worker without peers.
func New(env Env, c Config) *Worker {
	w := &Worker{frames: frames{env: env, config: c}}
	w.streams.frames = &w.frames
	return w
}

// spread copies bytes into a buffer in pieces.
func spread(to [][]byte, from []byte) {
	for _, b := range to {
		if len(from) == 0 {
			return
		}
		from = from[copy(b, from):]
	}
}
