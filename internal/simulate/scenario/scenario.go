// Package scenario has the description of a simulation: a network, how its hosts send, and their
// traffic. Parse reads it from YAML. What is wrong in a file is named by line and column, with what
// was expected and what was found.
package scenario

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/topology"
)

// A Scenario is what is simulated.
type Scenario struct {
	Title    string    `json:"title"`    // one line
	About    string    `json:"about"`    // a paragraph: what it shows
	Topology string    `json:"topology"` // for topology.Generate
	Seed     uint64    `json:"seed"`
	Duration Duration  `json:"duration"` // of the traffic
	Limit    Duration  `json:"limit"`    // until when messages may arrive; Duration if 0 (see Check)
	Warm     Duration  `json:"warm"`     // from the start, for which streams are not measured
	Sample   Duration  `json:"sample"`   // between two samples of queues and rates; a 200th of Duration if 0
	Links    Links     `json:"links"`
	Switch   Switch    `json:"switch"`
	Sender   Sender    `json:"sender"`
	Traffic  []Traffic `json:"traffic"`
	Variants []Variant `json:"variants"` // of Links, Switch and Sender, each simulated with the same traffic
	Papers   []Paper   `json:"papers"`   // published figures to compare with
}

// Links are the cables and the ports at their ends.
type Links struct {
	Speed Rate     `json:"speed"` // 100 Gbit/s if 0
	Cable Duration `json:"cable"` // delay; 25 ns, that of five metres, if 0
	Hosts Host     `json:"hosts"` // what is different for the links of hosts
}

// Host is what is different for the links of hosts.
type Host struct {
	Speed Rate     `json:"speed"`
	Cable Duration `json:"cable"`
}

// A Switch is how switches are set.
type Switch struct {
	Buffer   Size     `json:"buffer"`   // shared by the ports; 32 MiB if 0
	Hop      Duration `json:"hop"`      // of a frame from its first byte in to the first one out, see Mode; 230 ns if 0
	Mode     Mode     `json:"mode"`     // cut-through if empty
	PFC      bool     `json:"pfc"`      // pauses of the senders' priority; otherwise what finds no room is dropped
	Headroom Size     `json:"headroom"` // with PFC, of each port; what the link needs if 0
	Mark     Mark     `json:"mark"`
	Balance  Balance  `json:"balance"`
	Hash     uint32   `json:"hash"`     // another one makes the same messages take other paths
	Watchdog Watchdog `json:"watchdog"` // of pauses
}

// Mark is when a switch marks packets as they join a queue (RED).
type Mark struct {
	Min  Size    `json:"min"`
	Max  Size    `json:"max"` // no marks if 0
	Most float64 `json:"most"`
}

// Watchdog is what a switch does about pauses that do not end.
type Watchdog struct {
	Detect  Duration `json:"detect"`  // how long a queue is paused until that is a storm; no watchdog if 0
	Restore Duration `json:"restore"` // how long the neighbor does not pause until the storm is over; Detect if 0
	Forward bool     `json:"forward"` // sends in spite of the pause; otherwise what waits is dropped
}

// A Sender is how hosts send.
type Sender struct {
	Control  Control  `json:"control"`
	Recovery Recovery `json:"recovery"`
	Window   Size     `json:"window"`  // bytes of a queue pair in flight; 1 MiB if 0
	MTU      int      `json:"mtu"`     // 256 to 4096; 1024 if 0
	Timeout  Duration `json:"timeout"` // of acknowledges; 67 ms if 0
	First    Size     `json:"first"`   // bytes in flight at the start; 128 KiB if 0, as a process does not know its line
	Quantum  Duration `json:"quantum"` // for which a paced flow sends at once; 50 µs if 0, the timer of a process
	Trip     Duration `json:"trip"`    // without queues, for timely, swift and hpcc; measured if 0
	DCQCN    DCQCN    `json:"dcqcn"`
}

// DCQCN is how the control of this name recovers from notifications.
type DCQCN struct {
	Preset Preset   `json:"preset"`
	Raise  Duration `json:"raise"` // between two increases by time; 300 µs if 0
	Bytes  Size     `json:"bytes"` // and by what was sent; 10 MiB if 0
	Step   Rate     `json:"step"`  // of an additive increase; at most 40 Mbit/s and a packet in a round trip if 0

	Decrease Duration `json:"decrease"` // after which a notification decreases the rate, as adapters do; at once if 0
}

// Tuning returns the parameters of the control, nil for its own.
func (s *Sender) Tuning() *congestion.Tuning {
	var t congestion.Tuning
	if s.DCQCN.Preset == Published {
		t = congestion.PaperTuning()
	}
	for _, x := range []struct{ into, from *time.Duration }{
		{&t.Quantum, (*time.Duration)(&s.Quantum)}, {&t.Raise, (*time.Duration)(&s.DCQCN.Raise)},
		{&t.Trip, (*time.Duration)(&s.Trip)}, {&t.Decrease, (*time.Duration)(&s.DCQCN.Decrease)},
	} {
		if *x.from != 0 {
			*x.into = *x.from
		}
	}
	if s.First != 0 {
		t.First = int(s.First)
	}
	if s.DCQCN.Bytes != 0 {
		t.Bytes = int(s.DCQCN.Bytes)
	}
	if s.DCQCN.Step != 0 {
		t.Step = float64(s.DCQCN.Step) / 8
	}
	if t == (congestion.Tuning{}) {
		return nil
	}
	return &t
}

// A Traffic is messages between hosts. Hosts have numbers from 0 on, in the order of the topology.
type Traffic struct {
	Name  string   `json:"name"`
	Kind  Kind     `json:"kind"`
	Hosts []int    `json:"hosts"` // that take part; all if empty
	From  []int    `json:"from"`  // of streams and messages
	To    []int    `json:"to"`    // the same; of an incast the one that receives
	Size  Size     `json:"size"`  // of a message, of a ring's vector
	Start Duration `json:"start"`
	Stop  Duration `json:"stop"`  // Duration if 0
	Every Duration `json:"every"` // the traffic is repeated after this time
	Sizes Sizes    `json:"sizes"` // of random messages
	Load  float64  `json:"load"`  // of random messages: share of the hosts' links, 0 to 1
	Part  Size     `json:"part"`  // of a tree's vector that is sent on by itself; 64 KiB if 0

	Priority uint8 `json:"priority"` // of the network; DefaultPriority if there is none
}

// DefaultPriority is that of traffic that names none.
const DefaultPriority = 3

// Priorities returns the priorities of all traffic, bit i for priority i.
func (s *Scenario) Priorities() (set uint8) {
	for i := range s.Traffic {
		set |= 1 << s.Traffic[i].Priority
	}
	return set
}

// A Variant is a change of the scenario.
type Variant struct {
	Name   string `json:"name"`
	Links  Links  `json:"links"`
	Switch Switch `json:"switch"`
	Sender Sender `json:"sender"`
}

// A Paper is a published figure.
type Paper struct {
	What   string `json:"what"`   // the figure and where it is
	Figure string `json:"figure"` // what is published
	Ours   string `json:"ours"`   // sentence on the difference
}

// A Control is a congestion.Kind by its name.
type Control struct{ congestion.Kind }

// UnmarshalText reads a name.
func (c *Control) UnmarshalText(b []byte) (err error) {
	c.Kind, err = congestion.ParseKind(string(b))
	return err
}

// MarshalText returns the name.
func (c Control) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Fabric returns the network's nodes and cables.
func (s *Scenario) Fabric() (*topology.Fabric, error) { return topology.Generate(s.Topology) }

// Hosts returns the number of hosts of a network.
func Hosts(f *topology.Fabric) (n int) {
	for i := range f.Nodes {
		if f.Nodes[i].Kind != topology.Switch {
			n++
		}
	}
	return n
}
