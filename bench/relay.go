package bench

import (
	"fmt"

	"softrdma/bench/relay"
)

// A Relay is a path between two network namespaces whose packets this process
// carries, as slowly and as badly as it is told to. Whoever crosses it meets
// the same.
type Relay struct {
	Path *Path
	taps taps
	run  *relaying
}

// relayMTU is that of the relay's Ethernet.
const relayMTU = 1500

// An Account is what a relay did with the frames that it was given.
type Account struct {
	Forward  relay.Stats `json:"forward"` // from the client to the server
	Back     relay.Stats `json:"back"`
	Later    int         `json:"later_peak_bytes"` // that waited at most on the way forward, in the run's later half
	Strays   int         `json:"strays"`           // frames that the interfaces lost, not the relay
	LateP99  float64     `json:"late_p99_us"`      // how much later than told frames left
	LateMost float64     `json:"late_most_us"`
}

// Add adds another run's account.
func (a *Account) Add(o Account) {
	a.Forward.Add(o.Forward)
	a.Back.Add(o.Back)
	a.Strays += o.Strays
	a.LateP99, a.LateMost = max(a.LateP99, o.LateP99), max(a.LateMost, o.LateMost)
}

// String is the account in a line.
func (a *Account) String() string {
	s := a.Forward
	s.Add(a.Back)
	return fmt.Sprintf("%d frames in, %d out, %d lost as told, %d for a full queue, %d otherwise; at most %.0f µs late, 99 %% within %.0f µs",
		s.Entered, s.Left, s.Lost, s.Dropped, a.Strays, a.LateMost, a.LateP99)
}
