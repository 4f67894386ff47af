package adapter

import (
	"time"

	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// A hostRun is messages through memory that differ from the one before in what their machine checks
// alone: short WRITEs from one queue pair to another. A few comparisons replace the checks of IBTA
// 9.6 and the look-up of the queue pair. The zero hostRun is none.
type hostRun struct {
	path  *hostpath.Path
	qp    *QP // nil for no run
	head  hostmem.Head
	qpn   uint32
	pkey  uint16
	taken bool // the machine took some, see end
}

// begin expects more messages like m, a packet that was parsed as in and dispatched to a queue
// pair.
func (r *hostRun) begin(path *hostpath.Path, q *QP, in *machine.In, m *hostmem.Received) {
	if in.Opcode == ib.RCWriteOnly && m.Train <= 1 && m.Lent == nil {
		*r = hostRun{path: path, qp: q, head: m.Head, qpn: in.DestQPN, pkey: in.PKey}
	}
}

// next receives a message that was parsed without a fault if it belongs to the run, and
// reports whether it did. What in says of the path is that of the message before.
func (r *hostRun) next(now time.Duration, path *hostpath.Path, in *machine.In, m *hostmem.Received) bool {
	if r.qp == nil || in.Opcode != ib.RCWriteOnly || in.DestQPN != r.qpn || in.PKey != r.pkey ||
		path != r.path || m.Head != r.head || m.Lent != nil || !r.qp.can.Continuer.Continue(now, in) {
		return false
	}
	r.taken = true
	return true
}

// end ends the run. It returns the queue pair, and reports whether its machine took messages of it.
func (r *hostRun) end() (q *QP, taken bool) {
	if r.qp != nil {
		q, taken = r.qp, r.taken
		*r = hostRun{}
	}
	return q, taken
}
