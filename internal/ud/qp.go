// Package ud is the unreliable datagram as a machine without I/O: messages of one packet to
// any queue pair of type UD or to a multicast group (IBTA 9.8.3). It owns Q_Keys and the global
// route header in front of each received datagram; package unreliable owns the completions. It never retries, answers nothing, and remembers no peer.
package ud

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/unreliable"
	"softrdma/internal/wire/ib"
)

// A QP is the transport half of a queue pair of type UD. Port.Attr.PathMTU
// holds the port's MTU.
type QP struct {
	unreliable.Queues

	psn  psn.PSN // of the next packet
	send memory.Cursor
	recv memory.Cursor
	grh  [ib.GRHLen]byte
}

var _ machine.Machine = (*QP)(nil)

// New makes the machine of p, which the caller keeps.
func New(p *machine.Port) *QP { return &QP{Queues: unreliable.New(p)} }

// Capabilities implements machine.Machine.
func (q *QP) Capabilities() machine.Capabilities {
	return machine.Capabilities{Receiver: q, Sender: q, Addresser: q}
}

// Transition follows a change of the state.
func (q *QP) Transition(now time.Duration, from qp.State) {
	q.Queues.Transition(now, from)
	if q.Attr.State == qp.RTS && from == qp.RTR {
		q.psn = q.Attr.SQPSN
	}
}
