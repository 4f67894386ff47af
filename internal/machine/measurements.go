package machine

import "time"

// A Measurer is a Machine of reliable connections.
type Measurer interface {
	Measure() Measurements
}

// Measurements are what a machine knows about the path to its peer.
type Measurements struct {
	Acknowledged uint32        // sequence number before which the peer has acknowledged all packets
	RoundTrip    time.Duration // the latest, 0 if there was none
	Window       int           // bytes that may be in flight
}
