// Package conn is what the requester and the responder of one reliable connection share:
// the queue pair's environment, what is known of the peer, and the way to the error
// state. It has no protocol of its own.
package conn

import (
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Conn is one connection.
type Conn struct {
	Port    *machine.Port
	Done    machine.Completions
	Peer    Peer
	Trusted bool   // the packet being received comes from the peer's source port
	Stop    func() // stops the requester

	KeepReasons bool // the peer is not told why a request is refused
}

// A Peer is what is known of the other end: whether it is softrdma, whose packets
// announce that it knows selective acknowledges and reasons.
type Peer uint8

// The kinds of peers.
const (
	Unknown Peer = iota
	Standard
	Selective
)

// Selective reports whether both ends know selective acknowledges, and reasons with NAKs.
func (c *Conn) Selective() bool { return c.Peer == Selective }

// Refuse counts and traces a refusal.
func (c *Conn) Refuse(d reason.Detail) { c.Port.Host.Refuse(c.Port, d) }

// Revoked is the refusal of a packet whose payload was taken back while it was copied.
func Revoked(in *machine.In) reason.Detail {
	return reason.Detail{Reason: reason.HostRevoked, Found: uint64(len(in.Payload))}
}

// EnterErr takes the queue pair to the error state by itself. The machine flushes the
// queues before control returns to its caller.
func (c *Conn) EnterErr(d reason.Detail, s queue.Status) {
	a := &c.Port.Attr
	from := a.State
	if from == qp.Err {
		return
	}
	c.Done.Failed(d, s)
	a.State, a.SQDraining = qp.Err, false
	c.Stop()
	c.Port.Host.StateChanged(c.Port, from, d)
}

// Span is the number of PSNs from the expected one on of which a responder holds
// requests, and which a requester has in flight: 4 MiB of them and 4096 at most. Both
// ends of a connection know the path MTU, and so each other's span. On a long path the requester
// asks for more, and the responder says how much it gets (own.WideAck).
func Span(mtu uint32) uint32 { return min(4<<20/mtu, 4096) }

// MaxSpan bounds every span, so that PSNs before and behind the expected one can be told apart
// (IBTA 9.7.2).
const MaxSpan = 1 << 21

// KeepFactor is how many times the agreed number of READs and atomics a softrdma
// responder remembers if it is asked to: while the answer to one is missing, those behind
// it are answered, and others are sent in their place.
const KeepFactor = 4

// MaxKept bounds how many a responder remembers for a peer on a long path that asks for more. Together with the
// answers that are missing for a round trip or two, they fill 10 Gbit/s over 100 ms with READs of 64 KiB.
const MaxKept = 8192

// AtomicLen is the length of the word that atomics work on, in bytes.
const AtomicLen = 8
