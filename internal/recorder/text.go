package recorder

import (
	"fmt"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// Line returns the record as a line of text. Times are since start.
func (r *Record) Line(start time.Duration) string {
	b := fmt.Appendf(nil, "%12.6f  QP 0x%06x  %-9v ", (r.Time - start).Seconds(), r.QPN, r.Kind)
	switch r.Kind {
	case Sent, Received:
		b = r.Header.AppendHeaders(b)
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
		b = fmt.Appendf(b, "; the peer says %v: %v", r.Said.Reason, r.Said)
	}
	return string(b)
}

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"sent", "received", "state", "completed", "refused"}[min(k, Refused)]
}
