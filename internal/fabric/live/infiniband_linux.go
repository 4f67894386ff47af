package live

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/agent"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// infiniband is the network of a fabric that is an InfiniBand subnet.
type infiniband struct{ *Fabric }

var _ network = infiniband{}

// newInfiniBand makes the subnet of a fabric, with its manager.
func newInfiniBand(f *Fabric) infiniband {
	c := &f.config
	c.Port.Refresh, c.Port.NoVCRC, c.Port.Early = port.Never, true, early
	f.subnet = subnet.New(subnet.Config{Fabric: c.Fabric, Cable: c.Cable, Port: c.Port, Node: c.Node, Dropped: c.Dropped})
	if c.Manager != nil {
		at := managerNode(c.Fabric)
		mc := *c.Manager
		mc.GUID = ManagerGUID(c.Fabric)
		f.manager = sm.New(&mc)
		f.subnet.Manage(0, at, f.manager)
	}
	return infiniband{f}
}

// kind implements network.
func (infiniband) kind() attach.Network { return attach.InfiniBand }

// deadline implements network.
func (f infiniband) deadline() time.Duration { return f.subnet.Deadline() }

// run implements network.
func (f infiniband) run(now, until time.Duration) { f.subnet.RunAhead(now, until) }

// plug implements network.
func (f infiniband) plug(p *program) { f.subnet.Attach(p.node, p) }

// unplug implements network.
func (f infiniband) unplug(now time.Duration, a *attachment) {
	f.leaveGroups(a)
	f.subnet.Resume(now, a.at)
	if a.share.Lane == 0 {
		f.subnet.Agent(a.at.Node).SetCapability(now, a.at.Port, smp.CapSM, false)
		f.subnet.Wake(a.at.Node)
	}
}

// send implements network.
func (f infiniband) send(now time.Duration, a *attachment, x *input) bool {
	return f.subnet.Send(now, a.at, x.frame)
}

// discard implements network.
func (f infiniband) discard(x *input) { f.subnet.Pool().Recycle(x.frame) }

// resume implements network.
func (f infiniband) resume(now time.Duration, at topology.End) { f.subnet.Resume(now, at) }

// setCut implements network.
func (f infiniband) setCut(_ time.Duration, at topology.End, cut bool) {
	if cut {
		f.subnet.Cut(at)
	} else {
		f.subnet.Repair(at)
	}
}

// isCut implements network.
func (f infiniband) isCut(at topology.End) bool { return f.subnet.IsCut(at) }

// answer implements network.
func (f infiniband) answer(question []byte) ([]byte, error) {
	if f.config.Control == nil {
		return nil, reason.NotSupported("this fabric answers no questions")
	}
	return f.config.Control(f.now(), f.subnet, f.manager, question)
}

// find implements network.
func (f infiniband) find(ip netip.Addr) (x attach.FoundBody, ok bool) {
	for at, addrs := range f.config.Addrs {
		if slices.Contains(addrs, ip) {
			g := f.subnet.Agent(at.Node)
			p := g.PortInfo(at.Port)
			binary.BigEndian.PutUint64(x.GID[:], p.GIDPrefix)
			binary.BigEndian.PutUint64(x.GID[8:], g.GUIDs(at.Port)[0])
			return x, true
		}
	}
	return x, false
}

// named implements network.
func (f infiniband) named(name string) (node int, addr netip.Addr, err error) {
	node, err = f.config.Fabric.Find(name)
	return node, addr, err
}

// message implements network.
func (f infiniband) message(a *attachment, k attach.Kind, b []byte) error {
	switch {
	case (k == attach.Send || k == attach.SetSM) && a.share.Lane != 0: // queue pair 0 is the manager's
		return reason.Detail{Reason: reason.FabricMessage, Expected: uint64(attach.Violated), Found: uint64(k)}.Err()
	case k == attach.Send:
		d := new(attach.Departure)
		if err := d.Parse(b); err != nil {
			return err
		}
		f.post(func() { a.sendMAD(d) })
	case k == attach.SetSM && len(b) == 2 && b[1] <= 1:
		on := b[1] == 1
		f.post(func() { a.setSM(on) })
	case k == attach.Violated:
		v := new(attach.Violation)
		if err := v.Parse(b); err != nil {
			return err
		}
		f.post(func() { a.violated(v) })
	case k == attach.Member:
		var m attach.Membership
		on, err := m.Parse(b)
		if err != nil {
			return err
		}
		f.post(func() { a.setMember(m, on) })
	default:
		return reason.Detail{Reason: reason.FabricMessage, Expected: uint64(attach.Send), Found: uint64(k)}.Err()
	}
	return nil
}

// describe implements network.
func (f infiniband) describe(a *attachment) attach.Info {
	at := a.at
	n := &f.config.Fabric.Nodes[at.Node]
	g := f.subnet.Agent(at.Node)
	i := attach.Info{
		Up: true, Fabric: f.config.Name, Node: f.names[at.Node], Port: uint8(at.Port), Description: n.Description,
		NodeInfo: g.NodeInfo(at.Port), PortInfo: g.PortInfo(at.Port), GUIDs: g.GUIDs(at.Port), Addrs: f.config.Addrs[at],
	}
	for block := 0; len(i.PKeys) < int(i.NodeInfo.PartitionCap); block++ {
		t := f.subnet.Node(at.Node).Partitions(at.Port, block)
		i.PKeys = append(i.PKeys, t[:]...)
	}
	return i
}

// read implements network: it checks what an adapter's hardware writes itself.
func (f infiniband) read(a *attachment, sl uint8, x *input) bool {
	n := x.size()
	frame := f.subnet.Pool().Buffer(n + ib.VCRCLen)
	copy(frame, x.batch.Data[x.at:x.at+n])
	a.advance(sl, x, n)
	var h ib.LRH
	var d reason.Detail
	lid, lmc := f.subnet.Agent(a.at.Node).LID(a.at.Port)
	switch {
	case !h.Parse(frame) || 4*int(h.Words) != n || n < h.HeaderLen()+ib.BTHLen+ib.ICRCLen:
		d = reason.Detail{Reason: reason.FabricLength, Expected: 4 * uint64(h.Words), Found: uint64(n)}
	case h.Next < ib.LocalBTH || h.Version != 0:
		d = reason.Detail{Reason: reason.PacketLRH, Expected: uint64(ib.LocalBTH), Found: uint64(h.Version)<<8 | uint64(h.Next)}
	case h.DLID == ib.PermissiveLID || [3]byte(frame[h.HeaderLen()+destQPNAt:]) == [3]byte{}: // IBTA 7.6.4: lane 15 is for queue pair 0
		d = reason.Detail{Reason: reason.FabricManagementVL, Expected: uint64(ib.LocalBTH), Found: uint64(h.Next)}
	case h.VL != 0:
		d = reason.Detail{Reason: reason.FabricVL, Expected: 1, Found: uint64(h.VL)}
	case h.SL != sl:
		d = reason.Detail{Reason: reason.FabricLane, Expected: uint64(sl), Found: uint64(h.SL)}
	case lid == 0 || uint16(h.SLID)>>lmc != lid>>lmc:
		d = reason.Detail{Reason: reason.PacketSLID, Expected: uint64(lid), Found: uint64(h.SLID)}
	default:
		clear(frame[n:]) // see port.Config.NoVCRC
		x.frame = frame
		if a.share.Of > 1 && h.DLID.Multicast() { // no switch sends it back to this port
			f.programs[a.at.Node].ports[a.at.Port].spread(frame, a)
		}
		return true
	}
	f.drop(a.at, d)
	f.subnet.Pool().Recycle(frame)
	return false
}

// destQPNAt is where a BTH has the destination's number.
const destQPNAt = 5

// MAD implements subnet.Program.
func (p *program) MAD(_ time.Duration, in *agent.Arrival) {
	if a := p.ports[in.Port].manager(); a != nil {
		a.tellMAD(in)
	}
}

// Packet implements subnet.Program.
func (p *program) Packet(now time.Duration, port int, frame []byte) bool {
	t := &p.ports[port]
	if len(t.lanes) > 1 && isGroup(frame) {
		t.spread(frame, nil)
		p.fabric.subnet.Pool().Recycle(frame)
		return true
	}
	a := t.of(frame)
	if a == nil {
		p.fabric.subnet.Unwanted(topology.End{Node: p.node, Port: port}, frame)
		return true
	}
	return a.put(now, frame)
}

// Notify implements subnet.Program.
func (p *program) Notify(port int, e agent.Event) {
	for _, a := range p.ports[port].lanes {
		if a != nil {
			a.reregister = a.reregister || e == agent.ClientReregister
			a.changed()
		}
	}
}

// sendMAD sends a packet of queue pair 0 of a program.
func (a *attachment) sendMAD(d *attach.Departure) {
	if a.ended {
		return
	}
	lid, _ := a.fabric.subnet.Agent(a.at.Node).LID(a.at.Port)
	a.fabric.subnet.SendMAD(a.fabric.now(), a.at.Node, &agent.Departure{
		Port: a.at.Port, SLID: lid, DLID: d.DLID, SL: d.SL, QPN: smp.QPN, SourceQPN: smp.QPN, PKey: smp.DefaultPKey, MAD: d.MAD,
	})
}

// violated counts and reports a packet that the program's adapter has refused for its key.
func (a *attachment) violated(v *attach.Violation) {
	if a.ended {
		return
	}
	x := agent.Violation{SLID: v.SLID, DLID: v.DLID, SL: v.SL, SourceQPN: v.SourceQPN, DestinationQPN: v.DestinationQPN, Key: v.Key,
		Global: v.Global, Source: v.Source, Destination: v.Destination}
	g := a.fabric.subnet.Agent(a.at.Node)
	if v.QKey {
		g.QKeyViolation(a.fabric.now(), a.at.Port, &x)
	} else {
		g.PKeyViolation(a.fabric.now(), a.at.Port, &x)
	}
	a.fabric.subnet.Wake(a.at.Node)
	a.changed()
}

func (a *attachment) setSM(on bool) {
	if a.ended {
		return
	}
	a.fabric.subnet.Agent(a.at.Node).SetCapability(a.fabric.now(), a.at.Port, smp.CapSM, on)
	a.fabric.subnet.Wake(a.at.Node)
	a.changed()
}

// tellMAD gives the program a packet of queue pair 0. Lane 15 has no credits: a program that
// does not read loses packets (IBTA 7.9.1).
func (a *attachment) tellMAD(in *agent.Arrival) {
	m := *in.MAD
	x := attach.Arrival{SLID: in.SLID, DLID: in.DLID, SL: in.SL, SourceQPN: in.SourceQPN, MAD: (*[mad.Len]byte)(m[:])}
	if !a.outbox.mad(x.Message()) {
		a.fabric.drop(a.at, reason.Detail{Reason: reason.FabricManagementFull, Expected: outboxLen, Found: outboxLen})
	}
}
