// Package hostrun recognizes messages through memory that differ from the one before in what
// its machine checks alone: short WRITEs from one queue pair to another. A few comparisons
// replace the checks of IBTA 9.6 and the look-up of the queue pair.
package hostrun

import (
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// A Run is such messages from a path P to a queue pair Q. The zero Run is none.
type Run[P, Q comparable] struct {
	path  P
	qp    Q
	to    machine.Continuer // nil for no run
	head  hostmem.Head
	qpn   uint32
	pkey  uint16
	taken bool // Continue took some, see End
}

// Begin expects more messages like m, a packet that was parsed as in and dispatched to a queue
// pair.
func (r *Run[P, Q]) Begin(path P, q Q, to machine.Continuer, in *machine.In, m *hostmem.Received) {
	if in.Opcode == ib.RCWriteOnly && m.Train <= 1 && m.Lent == nil {
		*r = Run[P, Q]{path: path, qp: q, to: to, head: m.Head, qpn: in.DestQPN, pkey: in.PKey}
	}
}

// Continue receives a message that was parsed without a fault if it belongs to the run, and
// reports whether it did. What in says of the path is that of the message before.
func (r *Run[P, Q]) Continue(now time.Duration, path P, in *machine.In, m *hostmem.Received) bool {
	if r.to == nil || in.Opcode != ib.RCWriteOnly || in.DestQPN != r.qpn || in.PKey != r.pkey ||
		path != r.path || m.Head != r.head || m.Lent != nil || !r.to.Continue(now, in) {
		return false
	}
	r.taken = true
	return true
}

// End ends the run. It returns the queue pair, and reports whether Continue took messages for it.
func (r *Run[P, Q]) End() (q Q, taken bool) {
	if r.to != nil {
		q, taken = r.qp, r.taken
		*r = Run[P, Q]{}
	}
	return q, taken
}
