package control

import (
	"errors"
	"fmt"

	"softrdma/internal/fabric/subnet"
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
	if len(r.Args) == 0 && r.Faults == nil {
		for _, e := range c.cables() {
			if l := c.link(e); l.Faults != nil {
				reply.Links = append(reply.Links, l)
			}
		}
		return nil
	}
	if len(r.Args) == 0 || r.Faults == nil {
		return errors.New("faults: expected ports and what their cables are to do, or neither")
	}
	if err := checkFaults(r.Faults); err != nil {
		return err
	}
	for _, name := range r.Args {
		if e, err := c.findCable(name); err == nil && c.Trunk(e) != nil {
			return fmt.Errorf("%s leads out of the fabric by a trunk: faults happen on cables within it", name)
		}
	}
	return c.change(r.Args, reply, func(e topology.End) { c.SetFaults(c.now, e, *r.Faults) })
}

func checkFaults(f *subnet.Faults) error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"bit errors", f.BitErrors}, {"credit loss", f.CreditLoss}} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("%s: expected a probability from 0 to 1, found %v", p.name, p.value)
		}
	}
	return nil
}
