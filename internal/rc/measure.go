package rc

import "softrdma/internal/machine"

var _ machine.Measurer = (*QP)(nil)

// Measure implements machine.Measurer.
func (q *QP) Measure() machine.Measurements {
	return machine.Measurements{Acknowledged: q.req.una, RoundTrip: q.req.recovery.trips.acks.Latest(), Window: q.ctl.Window()}
}
