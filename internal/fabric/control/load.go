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
	DLID    uint16 `json:"dlid"` // 0 on Ethernet
	To      string `json:"to"`
	SL      uint8  `json:"sl"` // on Ethernet the priority
	Size    int    `json:"size"`
	Packets int    `json:"packets"`
	Sent    int    `json:"sent"`
	Arrived int    `json:"arrived"`

	SourcePort uint16 `json:"source_port,omitempty"` // of UDP, on Ethernet
}

// Limits of test traffic, which keep the fabric from falling behind real time for long.
const (
	maxLoadSize  = 4096
	maxLoadBurst = 500_000 // packets without a rate, of all loads of a request
	maxLoadRate  = 200_000 // packets a second, of all loads of a request
	maxLoads     = 4096

	leastLoadRate = 1e-3 // packets a second: what is less fits into no clock in the end
)

func (c *view) load(r *Request, reply *Reply) error {
	if err := r.changeLoads(c.StopLoads, c.generate); err != nil {
		return err
	}
	reply.Loads = []Load{}
	names := c.lidNames()
	for _, x := range c.Loads() {
		reply.Loads = append(reply.Loads, Load{From: c.endPortName(x.From), DLID: x.DLID, To: names[x.DLID], SL: x.SL, Size: x.Size,
			Packets: x.Packets, Sent: x.Sent, Arrived: x.Arrived})
	}
	return nil
}

// changeLoads starts loads or stops all, if that is asked for.
func (r *Request) changeLoads(stop func(), start func(*Request) error) error {
	switch {
	case r.Load == nil && len(r.Args) > 0:
		return errors.New("load: expected a size and a number of packets")
	case r.Load == nil: // lists alone
	case r.Load.Stop:
		stop()
	default:
		return start(r)
	}
	return nil
}

// generate starts the loads of a request.
func (c *view) generate(r *Request) error {
	l := r.Load
	pairs, err := c.pairs(r)
	if err != nil {
		return err
	}
	if l.Size < subnet.LeastLoad || l.Size%4 != 0 {
		return fmt.Errorf("size: expected a multiple of four up to %d, found %d", maxLoadSize, l.Size)
	}
	if err := l.check(len(pairs), len(c.Loads())); err != nil {
		return err
	}
	for _, p := range pairs {
		c.Generate(c.now, subnet.Load{From: p.from, DLID: p.dlid, SL: p.sl, Size: l.Size, Packets: l.Packets, Every: l.every()})
	}
	return nil
}

// every is the time between two packets of a load, 0 without a rate.
func (l *LoadRequest) every() time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / l.Rate)
}

// check refuses loads that would make the fabric late. running is the number of loads that run already.
func (l *LoadRequest) check(loads, running int) error {
	switch {
	case l.Size < 1 || l.Size > maxLoadSize:
		return fmt.Errorf("size: expected 1 up to %d, found %d", maxLoadSize, l.Size)
	case l.Packets < 1 || l.Packets > math.MaxInt32:
		return fmt.Errorf("packets: expected at least 1, found %d", l.Packets)
	case !(l.Rate >= 0 && l.Rate*float64(loads) <= maxLoadRate):
		return fmt.Errorf("rate: expected up to %d packets a second of %d loads together, found %g for each", maxLoadRate, loads, l.Rate)
	case l.Rate > 0 && l.Rate < leastLoadRate:
		return fmt.Errorf("rate: expected at least %g packets a second, or 0, found %g", leastLoadRate, l.Rate)
	case l.Rate == 0 && l.Packets > maxLoadBurst/loads:
		return fmt.Errorf("packets: expected up to %d of each of %d loads without a rate, found %d", maxLoadBurst/loads, loads, l.Packets)
	case running+loads > maxLoads:
		return fmt.Errorf("load: expected up to %d loads together: stop them first", maxLoads)
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
	ends, e := c.shifted(r)
	if e != nil {
		return nil, e
	}
	for _, p := range ends {
		dlid, _ := c.Agent(p[1].Node).LID(p[1].Port)
		add(p[0], dlid, c.endPortName(p[1]))
	}
	return list, err
}

// shifted returns the two ends of each load of a shift.
func (c *directory) shifted(r *Request) (pairs [][2]topology.End, err error) {
	ends := c.adapterPorts()
	if len(r.Args) > 0 || r.Load.Shift < 0 || r.Load.Shift >= len(ends) {
		return nil, fmt.Errorf("shift: expected 1 to %d and no other argument, found %d", len(ends)-1, r.Load.Shift)
	}
	for i, from := range ends {
		pairs = append(pairs, [2]topology.End{from, ends[(i+r.Load.Shift)%len(ends)]})
	}
	return pairs, nil
}

// adapterPorts returns the ports of adapters that have a cable.
func (c *directory) adapterPorts() (list []topology.End) {
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
	return c.stallAny(r, reply, 15, func(node int, levels uint16) { c.Stall(c.now, node, levels) }, c.Stalled)
}

// stallAny sets levels from 0 on of adapters, and lists those that take not all.
func (c *directory) stallAny(r *Request, reply *Reply, most int, set func(node int, levels uint16), stalled func(node int) uint16) error {
	var levels uint16
	for _, sl := range r.Levels {
		if sl < 0 || sl > most {
			return fmt.Errorf("level: expected 0 to %d, found %d", most, sl)
		}
		levels |= 1 << sl
	}
	err := each(r.Args, c.findAdapter, func(node int) { set(node, levels) })
	reply.Stalled = []Stalled{}
	for i := range c.fabric.Nodes {
		x := Stalled{Node: c.names[i]}
		for sl := range 16 {
			if !c.isSwitch(i) && stalled(i)>>sl&1 != 0 {
				x.Levels = append(x.Levels, sl)
			}
		}
		if len(x.Levels) > 0 {
			reply.Stalled = append(reply.Stalled, x)
		}
	}
	return err
}

func (c *directory) findAdapter(name string) (int, error) {
	node, err := c.fabric.Find(name)
	if err == nil && c.isSwitch(node) {
		return node, fmt.Errorf("%s is a switch: expected an adapter", name)
	}
	return node, err
}
