package machine

import (
	"softrdma/internal/congestion"
	"softrdma/internal/wire/ib"
)

// A Transport describes one type of queue pair to the adapter. Each transport's
// package has one, and the adapter a table of them.
type Transport struct {
	// Opcodes is the transport that the opcodes of its packets name.
	Opcodes ib.Transport

	// Connected: a queue pair has one peer, which its attributes name. Otherwise
	// each work request names a destination.
	Connected bool

	// Acknowledged: the peer acknowledges what arrived (a Connected transport). So a
	// machine knows what is in flight (InFlightReporter), notices a silent peer
	// (Port.PeerTimeout) and may send trains.
	Acknowledged bool

	// Lane prepares one of a device's lanes and returns what makes machines on it.
	Lane func(lanes int) Maker
}

// A Maker makes the machine of a queue pair in state RESET. The port stays the
// caller's to fill and to read.
type Maker func(p *Port, o Options) Machine

// Options are a queue pair's choices beyond the standard's attributes.
type Options struct {
	Control     congestion.Kind // congestion control
	GoBackN     bool            // no selective acknowledges (IBTA 9.7.5.1)
	KeepReasons bool            // does not tell peers why their requests are refused
}
