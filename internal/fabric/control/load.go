package control

import (
	"errors"
	"fmt"
	"math"
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/topology"
)

// A LoadRequest starts test traffic.
type LoadRequest struct {
	Shift   int     `json:"shift,omitempty"` // from each adapter to the one so many further on, instead of between two
	Size    int     `json:"size"`            // bytes of payload in a packet, a multiple of four
	Packets int     `json:"packets"`         // of each load
	Rate    float64 `json:"rate"`            // packets a second of each load; 0 is as fast as the lane takes them
	Stop    bool    `json:"stop,omitempty"`  // end and forget all loads instead
}

// A Load is test traffic from one adapter to an end port.
type Load struct {
	From    string `json:"from"`
	DLID    uint16 `json:"dlid"`
	To      string `json:"to"`
	SL      uint8  `json:"sl"`
	Size    int    `json:"size"`
	Packets int    `json:"packets"`
	Sent    int    `json:"sent"`
	Arrived int    `json:"arrived"`
}

// Limits of test traffic, which keep the fabric from falling behind real time for long.
const (
	maxLoadSize  = 4096
	maxLoadBurst = 500_000 // packets without a rate, of all loads of a request
	maxLoadRate  = 200_000 // packets a second, of all loads of a request
	maxLoads     = 4096
)

func (c *view) load(r *Request, reply *Reply) error {
	switch {
	case r.Load == nil && len(r.Args) == 0: // lists alone
	case r.Load == nil:
		return errors.New("load: expected a size and a number of packets")
	case r.Load.Stop:
		c.StopLoads()
	default:
		if err := c.generate(r); err != nil {
			return err
		}
	}
	reply.Loads = []Load{}
	names := c.lidNames()
	for _, x := range c.Loads() {
		reply.Loads = append(reply.Loads, Load{From: c.endPortName(x.From), DLID: x.DLID, To: names[x.DLID], SL: x.SL, Size: x.Size,
			Packets: x.Packets, Sent: x.Sent, Arrived: x.Arrived})
	}
	return nil
}

// generate starts the loads of a request.
func (c *view) generate(r *Request) error {
	l := r.Load
	pairs, err := c.pairs(r)
	switch {
	case err != nil:
		return err
	case l.Size < subnet.LeastLoad || l.Size > maxLoadSize || l.Size%4 != 0:
		return fmt.Errorf("size: expected a multiple of four up to %d, found %d", maxLoadSize, l.Size)
	case l.Packets < 1 || l.Packets > math.MaxInt32:
		return fmt.Errorf("packets: expected at least 1, found %d", l.Packets)
	case !(l.Rate >= 0 && l.Rate*float64(len(pairs)) <= maxLoadRate):
		return fmt.Errorf("rate: expected up to %d packets a second of %d loads together, found %g for each", maxLoadRate, len(pairs), l.Rate)
	case l.Rate == 0 && l.Packets > maxLoadBurst/len(pairs):
		return fmt.Errorf("packets: expected up to %d of each of %d loads without a rate, found %d", maxLoadBurst/len(pairs), len(pairs), l.Packets)
	case len(c.Loads())+len(pairs) > maxLoads:
		return fmt.Errorf("load: expected up to %d loads together: stop them first", maxLoads)
	}
	for _, p := range pairs {
		x := subnet.Load{From: p.from, DLID: p.dlid, SL: p.sl, Size: l.Size, Packets: l.Packets}
		if l.Rate > 0 {
			x.Every = time.Duration(float64(time.Second) / l.Rate)
		}
		c.Generate(c.now, x)
	}
	return nil
}

// A pair is where a load begins and ends.
type pair struct {
	from topology.End
	dlid uint16
	sl   uint8
}

// pairs returns the loads of a request.
func (c *view) pairs(r *Request) (list []pair, err error) {
	levels := c.serviceLevels(r.SL)
	add := func(from topology.End, dlid uint16, to string) {
		slid, _ := c.Agent(from.Node).LID(from.Port)
		if slid == 0 || dlid == 0 {
			err = errors.Join(err, fmt.Errorf("load from %s to %s: no subnet manager has given both a LID", c.endPortName(from), to))
			return
		}
		list = append(list, pair{from, dlid, levels(slid, dlid)})
	}
	if r.Load.Shift == 0 {
		if len(r.Args) != 2 {
			return nil, fmt.Errorf("load: expected two end ports or a shift, found %d arguments", len(r.Args))
		}
		from, e := c.findEndPort(r.Args[0])
		var t Trace
		if e = errors.Join(e, c.destination(r.Args[1], &t)); e != nil {
			return nil, e
		}
		if c.isSwitch(from.Node) {
			return nil, fmt.Errorf("%s: expected an adapter, which sends", r.Args[0])
		}
		add(from, t.DLID, t.To)
		return list, err
	}
	ends := c.adapterPorts()
	if len(r.Args) > 0 || r.Load.Shift < 0 || r.Load.Shift >= len(ends) {
		return nil, fmt.Errorf("shift: expected 1 to %d and no other argument, found %d", len(ends)-1, r.Load.Shift)
	}
	for i, from := range ends {
		to := ends[(i+r.Load.Shift)%len(ends)]
		dlid, _ := c.Agent(to.Node).LID(to.Port)
		add(from, dlid, c.endPortName(to))
	}
	return list, err
}

// adapterPorts returns the ports of adapters that have a cable.
func (c *view) adapterPorts() (list []topology.End) {
	for i := range c.fabric.Nodes {
		if !c.isSwitch(i) {
			list = append(list, c.portsOf(i)...)
		}
	}
	return list
}

// A Stalled adapter takes no packets of some service levels.
type Stalled struct {
	Node   string `json:"node"`
	Levels []int  `json:"levels"`
}

// stall sets the service levels of adapters, and lists those that take not all.
func (c *view) stall(r *Request, reply *Reply) error {
	var levels uint16
	for _, sl := range r.Levels {
		if sl < 0 || sl > 15 {
			return fmt.Errorf("service level: expected 0 to 15, found %d", sl)
		}
		levels |= 1 << sl
	}
	err := each(r.Args, c.findAdapter, func(node int) { c.Stall(c.now, node, levels) })
	reply.Stalled = []Stalled{}
	for i := range c.fabric.Nodes {
		x := Stalled{Node: c.names[i]}
		for sl := range 16 {
			if c.Stalled(i)>>sl&1 != 0 {
				x.Levels = append(x.Levels, sl)
			}
		}
		if len(x.Levels) > 0 {
			reply.Stalled = append(reply.Stalled, x)
		}
	}
	return err
}

func (c *view) findAdapter(name string) (int, error) {
	node, err := c.fabric.Find(name)
	if err == nil && c.isSwitch(node) {
		return node, fmt.Errorf("%s is a switch: expected an adapter", name)
	}
	return node, err
}
