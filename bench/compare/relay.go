package compare

import (
	"fmt"

	"softrdma/bench/relay"
)

// A Relay is a path between two network namespaces. This process relays its frames
// and emulates a slow or lossy network, the same for every sender.
type Relay struct {
	Path *Path
	taps taps
	run  *relayRun
}

// relayMTU is the MTU of the relay's interfaces.
const relayMTU = 1500

// An Account counts what a relay did with frames.
type Account struct {
	Forward        relay.Stats `json:"forward"` // from the client to the server
	Back           relay.Stats `json:"back"`
	Later          int         `json:"later_peak_bytes"` // maximum length of the forward queue in the second half of the run
	InterfaceDrops int         `json:"interface_drops"`  // frames that the interfaces lost, not the relay
	LateP99        float64     `json:"late_p99_us"`      // delay beyond the configured one
	LateMost       float64     `json:"late_most_us"`
}

// Add adds another run's account.
func (a *Account) Add(o Account) {
	a.Forward.Add(o.Forward)
	a.Back.Add(o.Back)
	a.InterfaceDrops += o.InterfaceDrops
	a.LateP99, a.LateMost = max(a.LateP99, o.LateP99), max(a.LateMost, o.LateMost)
}

// String returns the account on one line.
func (a *Account) String() string {
	s := a.Forward
	s.Add(a.Back)
	return fmt.Sprintf("%d frames in, %d out, %d lost as configured, %d dropped by a full queue, %d lost elsewhere; at most %.0f µs late, 99 %% within %.0f µs",
		s.Entered, s.Left, s.Lost, s.Dropped, a.InterfaceDrops, a.LateMost, a.LateP99)
}
