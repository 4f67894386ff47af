package adapter

import (
	"softrdma/internal/machine"
	"softrdma/internal/object"
)

// Measure appends what reliable connections have measured, of each lane those of at most limit queue
// pairs, which are others each time. It costs the device nothing while it is not called.
func (a *laneList) Measure(list []object.Connection, limit int) []object.Connection {
	a.locked(func(l *lane) {
		left := limit
		for n, q := range l.qps { // begins anywhere
			if left--; left < 0 {
				return
			}
			if m, ok := q.m.(machine.Measurer); ok {
				list = append(list, object.Connection{QPN: n, Measurements: m.Measure()})
			}
		}
	})
	return list
}
