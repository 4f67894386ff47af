package control

import (
	"errors"
	"fmt"
	"strings"

	"softrdma/faults"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

func (c *view) linkDown(r *Request, reply *Reply) error {
	return c.change(r.Args, reply, c.Cut)
}

func (c *view) linkUp(r *Request, reply *Reply) error {
	return c.change(r.Args, reply, c.Repair)
}

// change does something to the cables of ports.
func (c *view) change(args []string, reply *Reply, do func(topology.End)) error {
	return each(args, c.findCable, func(e topology.End) {
		do(e)
		reply.Links = append(reply.Links, c.link(e))
	})
}

func (c *view) fail(r *Request, reply *Reply) error {
	return each(r.Args, c.findSwitch, func(node int) { c.changeAll(node, reply, c.Cut) })
}

func (c *view) repair(r *Request, reply *Reply) error {
	return each(r.Args, c.findSwitch, func(node int) { c.changeAll(node, reply, c.Repair) })
}

// changeAll does something to all cables of a node.
func (c *view) changeAll(node int, reply *Reply, do func(topology.End)) {
	for p := 1; p <= c.fabric.Nodes[node].NumPorts(); p++ {
		if e := (topology.End{Node: node, Port: p}); c.hasCable(e) {
			do(e)
			reply.Links = append(reply.Links, c.link(e))
		}
	}
}

// setManager stops the fabric's own manager, or lets it run again.
func (c *view) setManager(r *Request, reply *Reply) error {
	on := r.Args[0] == "on"
	switch {
	case c.manager == nil:
		return errors.New("the fabric has no subnet manager of its own: it was started with --no-sm")
	case !on && r.Args[0] != "off":
		return fmt.Errorf("sm: expected on or off, found %q", r.Args[0])
	}
	c.SetManager(c.now, c.manager, on)
	return c.status(r, reply)
}

func (c *view) faults(r *Request, reply *Reply) error {
	if done, err := c.listFaults(r, reply, c.link); done || err != nil {
		return err
	}
	if r.Faults.PauseLoss != 0 || r.Faults.Rules != nil {
		return reason.NotSupported("faults: expected bit errors or credit loss on InfiniBand, found those of an Ethernet")
	}
	if err := c.refuseTrunks(r.Args); err != nil {
		return err
	}
	f := subnet.Faults{BitErrors: r.Faults.BitErrors, CreditLoss: r.Faults.CreditLoss}
	return c.change(r.Args, reply, func(e topology.End) { c.SetFaults(c.now, e, f) })
}

// refuseTrunks refuses ports with trunks for faults.
func (c *directory) refuseTrunks(ports []string) error {
	for _, name := range ports {
		if e, err := c.findCable(name); err == nil && c.trunk(e) != "" {
			return fmt.Errorf("%s leads out of the fabric by a trunk: faults happen on cables within it", name)
		}
	}
	return nil
}

// Faults are what a cable does to the packets of both directions.
type Faults struct {
	BitErrors  float64 `json:"bit_errors"`  // probability that a bit flips
	CreditLoss float64 `json:"credit_loss"` // probability that a link packet, which grants credit, is lost

	// Of Ethernet: the probability that a frame that pauses is lost, and rules for the other frames, with
	// the number of hits of each.
	PauseLoss float64       `json:"pause_loss,omitempty"`
	Rules     *faults.Rules `json:"rules,omitempty"`
	Hits      []uint64      `json:"hits,omitempty"`
}

// String lists the faults.
func (f *Faults) String() string {
	var parts []string
	add := func(name string, p float64) {
		if p != 0 {
			parts = append(parts, fmt.Sprintf("%s %g", name, p))
		}
	}
	add("bit errors", f.BitErrors)
	add("credit loss", f.CreditLoss)
	add("pause loss", f.PauseLoss)
	if f.Rules != nil {
		for i, r := range f.Rules.Rules {
			parts = append(parts, fmt.Sprintf("rule %d (%s) hit %d", i+1, r.Action, f.Hits[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// listFaults answers a request that asks for the cables with faults, and reports whether it is one. It
// checks others.
func (c *directory) listFaults(r *Request, reply *Reply, link func(topology.End) Link) (done bool, err error) {
	switch {
	case len(r.Args) == 0 && r.Faults == nil:
		reply.Links = []Link{}
		for _, e := range c.cables() {
			if l := link(e); l.Faults != nil {
				reply.Links = append(reply.Links, l)
			}
		}
		return true, nil
	case len(r.Args) == 0 || r.Faults == nil:
		return false, errors.New("faults: expected ports and what their cables are to do, or neither")
	}
	return false, checkFaults(r.Faults)
}

func checkFaults(f *Faults) error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"bit errors", f.BitErrors}, {"credit loss", f.CreditLoss}, {"pause loss", f.PauseLoss}} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("%s: expected a probability from 0 to 1, found %v", p.name, p.value)
		}
	}
	return nil
}
