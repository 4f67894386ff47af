package machine

import "time"

// An Origin is the UDP source port that the peer of a connection sends from. The
// port is entropy for the network's choice of paths (annex A17.3.2.1), not an
// address, so the standard lets a peer change it. But an attacker who sees no packet
// of a connection has to guess it in addition to the PSN.
//
// The port is learned from a packet that also has the one PSN that is due next. What
// becomes of packets from other ports is decided by the transport.
type Origin struct {
	port  uint16 // 0 until it is learned
	guess uint16 // that of a packet out of sequence, until then
	moves uint8
}

const (
	// OriginQuiet is for how long a softrdma peer must have been silent before
	// another source port is believed to be its own: it keeps one for the life of
	// a connection, and only an address translator on the path or a new path changes it.
	OriginQuiet = 100 * time.Millisecond

	// spreads is how often a standard peer may change its port before it is taken
	// for one that spreads the packets of a connection over several ports.
	spreads = 3
)

// Known reports whether the port was learned.
func (o *Origin) Known() bool { return o.port != 0 }

// Is reports whether port is the one that was learned.
func (o *Origin) Is(port uint16) bool { return o.port == port && port != 0 }

// Port is the port that was learned, 0 if there is none.
func (o *Origin) Port() uint16 { return o.port }

// Guess takes port for the peer's until it is learned, if there is no other guess,
// and reports whether it is the guess.
func (o *Origin) Guess(port uint16) bool {
	if o.guess == 0 {
		o.guess = port
	}
	return o.guess == port
}

// Learn takes port for the peer's, and reports whether a guess was wrong.
func (o *Origin) Learn(port uint16) (wrong bool) {
	wrong = o.port == 0 && o.guess != 0 && o.guess != port
	if o.port != 0 && o.moves < spreads {
		o.moves++
	}
	o.port = port
	return wrong
}

// Spread reports whether the peer uses several ports at a time.
func (o *Origin) Spread() bool { return o.moves >= spreads }
