// Package scenario has the description of a simulation: a network, how its hosts send, and their
// traffic. Parse reads it from YAML. What is wrong in a file is named by line and column, with what
// was expected and what was found.
package scenario

import (
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
	Hop      Duration `json:"hop"`      // from the first byte in to the first one out; 230 ns if 0
	PFC      bool     `json:"pfc"`      // pauses of the senders' priority; otherwise what finds no room is dropped
	Headroom Size     `json:"headroom"` // with PFC, of each port; what the link needs if 0
	Mark     Mark     `json:"mark"`
	Balance  Balance  `json:"balance"`
}

// Mark is when a switch marks packets as they join a queue (RED).
type Mark struct {
	Min  Size    `json:"min"`
	Max  Size    `json:"max"` // no marks if 0
	Most float64 `json:"most"`
}

// A Sender is how hosts send.
type Sender struct {
	Control  Control  `json:"control"`
	Recovery Recovery `json:"recovery"`
	Window   Size     `json:"window"`  // bytes of a queue pair in flight; 1 MiB if 0
	MTU      int      `json:"mtu"`     // 256 to 4096; 1024 if 0
	Timeout  Duration `json:"timeout"` // of acknowledges; 67 ms if 0
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
