package rc

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib/own"
)

// inform tells the congestion control what the switches of the path said of a packet that the peer
// acknowledges. payload is telemetry, as own.ParseTelemetry has found.
func (r *completer) inform(now time.Duration, payload []byte) {
	c, ok := r.q.ctl.(congestion.Informed)
	if !ok {
		return
	}
	_, b, _ := own.ParseTelemetry(payload)
	var hops [congestion.MaxHops]congestion.Hop
	var list [own.MaxHops]own.Hop
	n := 0
	for _, h := range own.ParseHops(list[:0], b) {
		hops[n] = congestion.Hop{At: time.Duration(h.Time), Sent: h.Bytes, Queue: int(h.Queue), Rate: float64(h.Rate) * 1e6 / 8}
		n++
	}
	c.Telemetry(now, hops[:n], &r.recovery.trips.acks)
}

// noteUninformed says when a control that takes telemetry begins to do without, because none comes.
func (r *recovery) noteUninformed() {
	q := r.q
	expected, found := q.ctl.(congestion.Informed).Uninformed()
	if (found > 0) == q.uninformed {
		return
	}
	if q.uninformed = found > 0; q.uninformed {
		q.c.Refuse(reason.Detail{Reason: reason.CongestionUninformed, Expected: uint64(expected), Found: uint64(found)})
	}
}
