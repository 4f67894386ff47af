package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/object"
)

var _ machine.Measurer = (*QP)(nil)

// Measure implements machine.Measurer.
func (q *QP) Measure() object.Measurements {
	r := &q.req
	return object.Measurements{
		Acknowledged: r.una, Bytes: r.window.acked, Expected: uint32(q.resp.Expected()), InFlight: r.nxt - r.una,
		RoundTrip: r.recovery.trips.acks.Latest(), Window: q.ctl.Window(), Lossless: r.window.lossless,
		Retransmitted: r.recovery.retry.all, Retries: r.recovery.retry.retries,
		RNRRetries: r.recovery.rnr.retries, RNRWait: r.recovery.rnr.until != machine.Never,
	}
}
