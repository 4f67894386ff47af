package machine

import "softrdma/internal/object"

// A Measurer is a Machine of reliable connections. Measure says what it knows about the path to its peer.
type Measurer interface {
	Measure() object.Measurements
}
