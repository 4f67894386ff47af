package live

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/management/agent"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A program is what is attached to the ports of a node.
type program struct {
	fabric *Fabric
	node   int
	ports  []tenants // by number
}

// Process implements control.Host.
func (p *program) Process(port int) int {
	if a := p.ports[port].any(); a != nil {
		return a.pid
	}
	return 0
}

// Remote implements control.Host.
func (p *program) Remote(port int) string {
	if a := p.ports[port].any(); a != nil && a.visit != nil {
		return a.visit.From.String()
	}
	return ""
}

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

func (f *Fabric) drop(at topology.End, d reason.Detail) {
	if f.config.Dropped != nil {
		f.config.Dropped(at, d)
	}
}

// An attachment is a program at a port. The loop owns it.
type attachment struct {
	fabric *Fabric
	at     topology.End
	share  attach.Share // of the port
	pid    int          // 0 for a program on another host
	visit  *visit       // nil for one on this host
	end    *fabric.End
	bell   *hostmem.Bell   // the program rings it
	ringer *hostmem.Ringer // rings the program's
	outbox *outbox
	ended  bool
	gone   chan struct{} // closed when the port is free again

	hot     bool // in Fabric.hot
	in      [fabric.Levels]input
	next    uint8 // service level that pull looks at first
	out     train
	full    uint16        // service levels whose ring to the program had no room
	since   time.Duration // when full was 0 last, if the port is shared
	blocked bool          // in Fabric.todo
	unheard uint16        // service levels with packets that the program was not woken for

	members    map[attach.Membership]struct{}
	info       attach.Info // as the program knows it
	stale      bool        // in Fabric.todo
	reregister bool
}

// An input is the message of a service level that is being sent.
type input struct {
	batch fabric.Batch
	at    int    // bytes of it that were read
	frame []byte // that the node did not take yet, with VCRC; nil if there is none
}

// pullBudget is the number of packets that one program sends in a round.
const pullBudget = 128

// pull sends what the program has put into its rings, and reports whether there was something.
func (a *attachment) pull(now time.Duration) (some bool) {
	budget := pullBudget
	for levels := a.end.Waiting() | a.refused(); levels != 0; {
		sl := fabric.NextLevel(levels, a.next)
		levels &^= 1 << sl
		a.next = (sl + 1) % fabric.Levels
		for budget > 0 && !a.ended && a.pullOne(now, sl) {
			some = true
			budget--
		}
	}
	return some
}

// pullOne sends the next packet of a service level, if there is one and the node takes it.
func (a *attachment) pullOne(now time.Duration, sl uint8) bool {
	x := &a.in[sl]
	if x.frame == nil {
		if len(x.batch.Data) == 0 {
			ok, fault := a.end.Next(sl, &x.batch)
			if fault.Reason != reason.None {
				a.fail(fault)
			}
			if !ok {
				return false
			}
			x.at = 0
		}
		if !a.read(sl, x) {
			return true
		}
	}
	if !a.fabric.subnet.Send(now, a.at, x.frame) {
		return false
	}
	x.frame = nil
	return true
}

// read copies the next packet out of a message, and checks what an adapter's hardware writes
// itself. It reports false for a packet that is dropped.
func (a *attachment) read(sl uint8, x *input) bool {
	n := min(x.batch.Size, len(x.batch.Data)-x.at)
	frame := a.fabric.subnet.Pool().Buffer(n + ib.VCRCLen)
	copy(frame, x.batch.Data[x.at:x.at+n])
	if x.at += n; x.at == len(x.batch.Data) {
		x.batch.Data = nil
		if a.end.Release(sl) {
			a.ringer.Ring()
		}
	}
	var h ib.LRH
	var d reason.Detail
	lid, lmc := a.fabric.subnet.Agent(a.at.Node).LID(a.at.Port)
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
			a.fabric.programs[a.at.Node].ports[a.at.Port].spread(frame, a)
		}
		return true
	}
	a.fabric.drop(a.at, d)
	a.fabric.subnet.Pool().Recycle(frame)
	return false
}

// refused returns the service levels of which the node did not take a packet.
func (a *attachment) refused() (set uint16) {
	for sl := range a.in {
		if a.in[sl].frame != nil {
			set |= 1 << sl
		}
	}
	return set
}

// destQPNAt is where a BTH has the destination's number.
const destQPNAt = 5

// fail ends an attachment whose program broke the rules.
func (a *attachment) fail(d reason.Detail) {
	a.ended = true
	a.fabric.drop(a.at, d)
	a.outbox.close()
}

// changed notes that the program is to learn of a change.
func (a *attachment) changed() {
	if !a.stale {
		a.stale = true
		a.fabric.todo.stale = append(a.fabric.todo.stale, a)
	}
}

// tell tells programs what changed.
func (f *Fabric) tell() {
	for _, a := range f.todo.stale {
		a.stale = false
		now := f.describe(a.at)
		if a.ended || !a.reregister && reflect.DeepEqual(&a.info, &now) {
			continue
		}
		a.info = now
		a.outbox.info(&attach.InfoBody{Info: now, Reregister: a.reregister})
		a.reregister = false
	}
	f.todo.stale = f.todo.stale[:0]
}

// describe returns what a port is.
func (f *Fabric) describe(at topology.End) attach.Info {
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

// attach gives a port to a program and returns the state of the port. If another program has the
// port, attach returns that program as held, and an error.
func (f *Fabric) attach(a *attachment) (info attach.Info, held *attachment, err error) {
	p := f.programs[a.at.Node]
	if p == nil {
		p = &program{fabric: f, node: a.at.Node, ports: make([]tenants, len(f.config.Fabric.Nodes[a.at.Node].Ports))}
		f.programs[a.at.Node] = p
		f.subnet.Attach(a.at.Node, p)
	}
	if held := p.ports[a.at.Port].enter(a); held != nil {
		name := attach.Address{Fabric: f.config.Name, Node: f.names[a.at.Node], Port: uint8(a.at.Port)}
		text := fmt.Sprintf("%s is attached to it: share the port by softrdma daemon -d ib:%v", held.holder(), name)
		if p.ports[a.at.Port].manager() == nil {
			text = fmt.Sprintf("%s is attached to it, which a softrdma daemon or exec started that has ended: end its programs first", held.holder())
		}
		return attach.Info{}, held, &reason.Error{
			Detail: reason.Detail{Reason: reason.FabricHeld, Expected: uint64(a.pid), Found: uint64(held.pid)},
			Text:   text,
		}
	}
	a.info = f.describe(a.at)
	f.heat(a)
	f.arrive(a)
	return a.info, nil, nil
}

// free frees what the loop does not use any more.
func (a *attachment) free() error {
	a.outbox.close()
	a.bell.Close()
	return errors.Join(a.ringer.Close(), a.end.Close())
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
