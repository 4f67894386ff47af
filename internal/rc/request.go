package rc

import "softrdma/internal/queue"

// A request is what the requester remembers of a work request beside the ring: what it
// read there, which may change if another process shares the ring, and the sequence
// numbers of the message.
type request struct {
	first, last uint32 // sequence numbers; last is first-1 if there are no packets
	length      uint32 // of the message
	op          uint8  // queue.Op
	flags       uint8  // queue.Flags
	state       uint8  // the constants below
}

// The states of a request, as bits.
const (
	started  = 1 << iota // its first packet left
	done                 // local operation executed
	failed               // completes in error when all before it have completed
	repeated             // READ asked for again, perhaps from its middle
	landed               // READ or atomic that is answered except for what is missing
)

func (w *request) local() bool  { return queue.Op(w.op).Local() }
func (w *request) atomic() bool { return queue.Op(w.op).Atomic() }

// answeredEmpty reports whether a READ response without data answers the request (IBTA A19).
func (w *request) answeredEmpty() bool {
	return queue.Op(w.op) == queue.Flush || queue.Op(w.op) == queue.AtomicWrite
}

// read reports whether READ responses answer the request.
func (w *request) read() bool { return queue.Op(w.op) == queue.Read || w.answeredEmpty() }

// responds reports whether an answer of its own completes the request: it is a READ or
// an atomic.
func (w *request) responds() bool { return w.read() || w.atomic() }

// takesReceive reports whether the message takes a receive of the peer.
func (w *request) takesReceive() bool { return queue.Op(w.op).TakesReceive() }
