package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// A Kind is a kind of traffic.
type Kind string

// The kinds.
const (
	Incast    Kind = "incast"          // all hosts send a message to one
	Permute   Kind = "permutation"     // each host sends a message to another one, which receives one
	AllToAll  Kind = "all-to-all"      // each host sends a message to each other one
	Ring      Kind = "ring-all-reduce" // each host sends parts of a vector to its neighbor, 2(n-1) in turn
	Tree      Kind = "tree-all-reduce" // a binary tree: parts of a vector to the root, and back to all
	Storm     Kind = "pause-storm"     // no messages: hosts take nothing, so their ports pause the switch
	Random    Kind = "random"          // messages of random sizes, between random hosts, at random times
	Message   Kind = "message"         // a message from each host of from to that of to
	Streaming Kind = "stream"          // the same without an end
)

var kinds = []Kind{Incast, Permute, AllToAll, Ring, Tree, Random, Message, Streaming, Storm}

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(b []byte) error { return choose(k, b, kinds) }

// A Recovery is what is sent again after a loss.
type Recovery string

// The kinds of recovery.
const (
	Selective Recovery = "selective" // what was lost
	GoBackN   Recovery = "go-back-n" // everything from the loss on
)

// UnmarshalText reads a name.
func (r *Recovery) UnmarshalText(b []byte) error {
	return choose(r, b, []Recovery{Selective, GoBackN})
}

// A Preset is a set of parameters of DCQCN.
type Preset string

// The presets.
const (
	Device    Preset = "device" // softrdma's
	Published Preset = "paper"  // its authors'
)

// UnmarshalText reads a name.
func (p *Preset) UnmarshalText(b []byte) error { return choose(p, b, []Preset{Device, Published}) }

// A Balance is how switches choose among paths of equal length.
type Balance string

// The ways to choose.
const (
	ByFlow    Balance = "flow"    // by a hash of addresses and ports
	ByFlowlet Balance = "flowlet" // again after each pause of a flow
	ByPacket  Balance = "packet"  // at random
)

// UnmarshalText reads a name.
func (v *Balance) UnmarshalText(b []byte) error {
	return choose(v, b, []Balance{ByFlow, ByFlowlet, ByPacket})
}

// A Mode is when a switch begins to send a frame on.
type Mode string

// The modes.
const (
	CutThrough      Mode = "cut-through"       // while the frame arrives
	StoreAndForward Mode = "store-and-forward" // Switch.Hop after all of it has arrived
)

// UnmarshalText reads a name.
func (m *Mode) UnmarshalText(b []byte) error {
	return choose(m, b, []Mode{CutThrough, StoreAndForward})
}

func choose[T ~string](v *T, b []byte, all []T) error {
	if i := slices.Index(all, T(b)); i >= 0 {
		*v = all[i]
		return nil
	}
	var names []string
	for _, x := range all {
		names = append(names, string(x))
	}
	return fmt.Errorf("expected one of %s", strings.Join(names, ", "))
}
