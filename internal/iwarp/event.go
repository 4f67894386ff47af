package iwarp

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// An EventKind is the type of an event of a connection.
type EventKind uint8

// The kinds.
const (
	// Requested: a responder's peer asks for a connection. Accept or Reject it.
	Requested EventKind = iota + 1
	// Established: the queue pair is in RTS. On a peer-to-peer connection, and with softrdma,
	// a responder gets it with the initiator's first frame, when it may send.
	Established
	// Rejected: the peer's program or driver refused.
	Rejected
	// Refused: the set-up failed, for the reason in Detail.
	Refused
	// Closed: an established connection ended, for the reason in Detail.
	Closed
)

// An Event reports to the user of a stream. It is valid during the call of the handler, which
// must not call the stream.
type Event struct {
	Kind      EventKind
	Stream    *Stream
	Agreement Agreement     // Established: of both ends. Requested: what the peer requests of this end; IRD is rdma_cm's responder_resources, ORD its initiator_depth
	Private   []byte        // Requested, Rejected, and Established at the initiator: the peer's
	Detail    reason.Detail // Rejected, Refused, Closed
	Term      iwarp.Term    // Closed for a reason TERM_...: the peer's Terminate

	// Unanswered belongs to Refused: the peer closed after a complete request of revision 2,
	// without an answer, and Params left the revision open. It may only know revision 1, so
	// another stream is worth trying (RFC 6581 10).
	Unanswered bool
}

// Shut says what to do with a stream's TCP connection.
type Shut uint8

// The ways to shut; each goes further than the one before.
const (
	ShutNothing Shut = iota
	ShutWrite        // half-close, and wait for the peer's end
	ShutClose        // close
	ShutAbort        // close with a reset
)
