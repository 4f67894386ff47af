package control

import (
	"fmt"
	"slices"

	"softrdma/faults"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// load starts, ends and lists test traffic.
func (c *etherView) load(r *Request, reply *Reply) error {
	if err := r.changeLoads(c.Extras().StopLoads, c.generate); err != nil {
		return err
	}
	reply.Loads = []Load{}
	for _, x := range c.Extras().Loads() {
		reply.Loads = append(reply.Loads, Load{From: c.names[x.From], To: c.names[x.To], SL: x.Priority, Size: x.Size, Packets: x.Packets,
			Sent: x.Sent, Arrived: x.Arrived, SourcePort: x.SourcePort})
	}
	return nil
}

// generate starts the loads of a request. Each has a source port of its own, so that switches spread them.
func (c *etherView) generate(r *Request) error {
	priority, err := r.priority()
	if err != nil {
		return err
	}
	pairs, err := c.etherPairs(r)
	if err != nil {
		return err
	}
	running := len(c.Extras().Loads())
	if err := r.Load.check(len(pairs), running); err != nil {
		return err
	}
	for _, p := range pairs {
		if limit := c.Port(p[0]).MTU() - lan.LoadHeaders; r.Load.Size > limit {
			return fmt.Errorf("size: expected up to %d on the link of %s, found %d", limit, c.names[p[0].Node], r.Load.Size)
		}
	}
	for i, p := range pairs {
		c.Extras().Generate(c.at, lan.Load{From: p[0].Node, To: p[1].Node, Priority: priority, SourcePort: uint16(defaultSourcePort + running + i),
			Size: r.Load.Size, Packets: r.Load.Packets, Every: dcb.FromDuration(r.Load.every())})
	}
	return nil
}

// etherPairs returns the two ends of each load of a request.
func (c *etherView) etherPairs(r *Request) ([][2]topology.End, error) {
	if r.Load.Shift != 0 {
		return c.shifted(r)
	}
	if len(r.Args) != 2 {
		return nil, fmt.Errorf("load: expected two hosts or a shift, found %d arguments", len(r.Args))
	}
	var pair [2]topology.End
	for i, name := range r.Args {
		node, err := c.findAdapter(name)
		if err == nil && c.addressOf(node) == "" {
			err = fmt.Errorf("%s has no cable, and so no address", name)
		}
		if err != nil {
			return nil, err
		}
		pair[i] = topology.End{Node: node, Port: 1}
	}
	return [][2]topology.End{pair}, nil
}

// stall sets the priorities whose frames hosts do not take.
func (c *etherView) stall(r *Request, reply *Reply) error {
	return c.stallAny(r, reply, ethernet.Priorities-1, func(node int, levels uint16) { c.Extras().Stall(c.at, node, uint8(levels)) },
		func(node int) uint16 { return uint16(c.Extras().Stalled(node)) })
}

// faults sets or lists the faults of cables.
func (c *etherView) faults(r *Request, reply *Reply) error {
	if done, err := c.listFaults(r, reply, c.link); done || err != nil {
		return err
	}
	if r.Faults.CreditLoss != 0 {
		return reason.NotSupported("faults: expected bit errors, pause loss or rules on Ethernet, found credit loss, which only InfiniBand has")
	}
	if rules := r.Faults.Rules; rules != nil {
		if err := checkRules(rules); err != nil {
			return err
		}
	}
	if err := c.refuseTrunks(r.Args); err != nil {
		return err
	}
	return c.change(r.Args, reply, func(e topology.End) { c.Extras().SetFaults(e, c.faultsOf(e, r.Faults)) })
}

// faultsOf returns what faults are for the network, nil if they are none.
func (c *etherView) faultsOf(e topology.End, f *Faults) *lan.Faults {
	if f.BitErrors == 0 && f.PauseLoss == 0 && f.Rules == nil {
		return nil
	}
	x := &lan.Faults{BitErrors: f.BitErrors, PauseLoss: f.PauseLoss}
	if f.Rules != nil {
		if rules, err := faults.New(*f.Rules, c.endPortName(e)); err == nil { // which checkRules has checked
			x.Judge = &cableRules{rules: rules}
		}
	}
	return x
}

// present returns the faults of a cable, nil if it has none.
func (c *etherView) present(e topology.End) *Faults {
	x := c.Extras().Faults(e)
	if x == nil {
		return nil
	}
	f := &Faults{BitErrors: x.BitErrors, PauseLoss: x.PauseLoss}
	if k, ok := x.Judge.(*cableRules); ok {
		rules := k.rules.Rules()
		f.Rules, f.Hits = &rules, k.rules.Counts()
	}
	return f
}

// onCables are the actions that a cable can do.
var onCables = []faults.Action{faults.Drop, faults.BlackHole, faults.Delay, faults.Duplicate, faults.Mark, faults.Corrupt}

// checkRules refuses rules that a cable cannot follow.
func checkRules(r *faults.Rules) error {
	if err := r.Check(); err != nil {
		return err
	}
	for i := range r.Rules {
		x := &r.Rules[i]
		switch {
		case !slices.Contains(onCables, x.Action):
			return &faults.Error{Rule: i, Field: "action", Expected: fmt.Sprintf("an action of cables: %v", onCables), Found: string(x.Action)}
		case x.ICRC == "right":
			return &faults.Error{Rule: i, Field: "icrc", Expected: "wrong: a cable knows no ICRC", Found: x.ICRC}
		case x.Select.Direction == faults.Received:
			return &faults.Error{Rule: i, Field: "direction", Expected: "sent: a cable has frames of both ends", Found: x.Select.Direction}
		}
	}
	return nil
}

// cableRules apply rules of faults to the frames of a cable.
type cableRules struct {
	rules *faults.Injector
	facts faults.PacketFacts
}

// Judge implements lan.Judge.
func (k *cableRules) Judge(now dcb.Time, f *dcb.Frame) (fate lan.Fate) {
	b := transport(f.Data)
	k.facts.Peer = f.To.Addr()
	k.facts.Read(b)
	v := k.rules.Packet(now.Duration(), &k.facts)
	if v.Mark {
		f.Mark()
	}
	if v.Corrupt != nil && len(b) > ib.BTHLen+ib.ICRCLen {
		part := b[ib.BTHLen : len(b)-ib.ICRCLen]
		if v.Corrupt.Part == "header" {
			part = b[:ib.BTHLen]
		}
		v.Change(part)
	}
	return lan.Fate{Drop: v.Drop, Duplicate: v.Duplicate, Delay: dcb.FromDuration(v.Delay)}
}

// transport returns the packet of RoCE in a frame, from BTH to ICRC, nil if there is none.
func transport(b []byte) []byte {
	const grhLen, udpLen = 40, 8
	var h ethernet.Header
	n := h.Parse(b)
	if n == 0 {
		return nil
	}
	b = b[n:]
	at := 0
	switch {
	case h.Type == ethernet.TypeRoCE:
		return b[min(grhLen, len(b)):]
	case h.Type == ethernet.TypeIPv4 && len(b) > 20 && b[9] == protocolUDP:
		at = 4 * int(b[0]&0xf)
	case h.Type == ethernet.TypeIPv6 && len(b) > 40 && b[6] == protocolUDP:
		at = 40
	}
	if at == 0 || len(b) < at+udpLen || int(b[at+2])<<8|int(b[at+3]) != rocePort {
		return nil
	}
	length := int(b[at+4])<<8 | int(b[at+5])
	return b[at+udpLen : max(at+udpLen, min(at+length, len(b)))]
}
