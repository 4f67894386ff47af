package recorder

import (
	"fmt"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Line returns the record as a line of text. Times are since start.
func (r *Record) Line(start time.Duration) string {
	b := fmt.Appendf(nil, "%12.6f  QP 0x%06x  %-9v ", (r.Time - start).Seconds(), r.QPN, r.Kind)
	switch r.Kind {
	case Sent, Received:
		b = r.appendHeader(b)
		if r.Bytes > 0 {
			b = fmt.Appendf(b, " len %d", r.Bytes)
		}
		if r.Count > 1 {
			b = fmt.Appendf(b, " in %d packets until %.6f", r.Count, (r.Last - start).Seconds())
		}
		return string(b)
	case State:
		b = fmt.Appendf(b, "%v -> %v", qp.State(r.From), qp.State(r.To))
	case Completed:
		b = fmt.Appendf(b, "work request %#x with %v", r.WRID, queue.Status(r.Status))
	case Refused:
		if r.Count > 1 {
			b = fmt.Appendf(b, "%d times until %.6f, first ", r.Count, (r.Last - start).Seconds())
		}
		return string(fmt.Appendf(b, "%v: %v", r.Detail.Reason, r.Detail))
	}
	if r.Detail.Reason != reason.None {
		b = fmt.Appendf(b, ", %v: %v", r.Detail.Reason, r.Detail)
	}
	if r.Said.Reason != reason.None {
		b = fmt.Appendf(b, "; the peer says %s", r.Said.Said())
	}
	return string(b)
}

// appendHeader appends what the record has of a packet's headers.
func (r *Record) appendHeader(b []byte) []byte {
	p := r.Header
	b = p.AppendHeaders(b, headers)
	if i := p.Opcode.Info(); i != nil && i.Headers&ib.HasAtomicETH != 0 { // without the operands
		b = fmt.Appendf(b, " VA 0x%x R_Key 0x%x", p.AtomicETH.Addr, p.AtomicETH.RKey)
	}
	return b
}

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"sent", "received", "state", "completed", "refused"}[min(k, Refused)]
}
