package adapter

import (
	"softrdma/internal/machine"
	"softrdma/internal/object"
)

// A Measured is what a queue pair has measured on its path.
type Measured struct {
	QPN uint32
	object.Measurements
}

// Measure appends what reliable connections have measured, of each lane those of at most limit queue
// pairs, which are others each time. It costs the device nothing while it is not called.
func (a *laneList) Measure(list []Measured, limit int) []Measured {
	a.locked(func(l *lane) {
		left := limit
		for n, q := range l.qps { // begins anywhere
			if left--; left < 0 {
				return
			}
			if m, ok := q.m.(machine.Measurer); ok {
				list = append(list, Measured{n, m.Measure()})
			}
		}
	})
	return list
}
