package subnet

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/agent"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A tool is a program that sends management packets and keeps the answers.
type tool struct {
	got []smp.Packet
}

func (p *tool) MAD(_ time.Duration, in *agent.Arrival) {
	var x smp.Packet
	x.Parse(in.MAD)
	p.got = append(p.got, x)
}

func (p *tool) Packet(time.Duration, int, []byte) bool { return true }
func (p *tool) Notify(int, agent.Event)                {}

// A rig is a subnet without a manager. The adapters are nodes 0 and 1 of a star.
type rig struct {
	*Subnet
	t     *testing.T
	tool  tool
	drops []reason.Detail
}

func newRig(t *testing.T, shape string) *rig {
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	r.Subnet = New(Config{Fabric: f, Port: port.Config{Refresh: port.Never}, Dropped: func(_ topology.End, d reason.Detail) { r.drops = append(r.drops, d) }})
	r.Run(10 * time.Microsecond)
	return r
}

// adapters returns the nodes that are adapters.
func (r *rig) adapters() (list []int) {
	for i := range r.config.Fabric.Nodes {
		if r.config.Fabric.Nodes[i].Kind == topology.Adapter {
			list = append(list, i)
		}
	}
	return list
}

// get asks for an attribute along a route from the first port of a node, and returns the
// answer, nil if there is none.
func (r *rig) get(node int, route []uint8, attr mad.AttributeID, mod uint32) *smp.Packet {
	return r.ask(node, smp.NewDirected(mad.MethodGet, attr, mod, 7, 0, route))
}

// ask sends a request from the first port of a node, and returns the answer, nil if there is
// none.
func (r *rig) ask(node int, p smp.Packet) *smp.Packet {
	out := agent.Departure{Port: 1, DLID: smp.PermissiveLID, SLID: smp.PermissiveLID}
	p.Put(&out.MAD)
	r.tool.got = nil
	r.Attach(node, &r.tool)
	r.SendMAD(r.now, node, &out)
	r.Run(r.now + time.Millisecond)
	switch len(r.tool.got) {
	case 0:
		return nil
	case 1:
		return &r.tool.got[0]
	}
	r.t.Fatalf("%d answers", len(r.tool.got))
	return nil
}

func TestDirectedRoutesReachEveryNode(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	from := r.adapters()[0]
	seen := map[uint64][]uint8{}
	for routes := [][]uint8{nil}; len(routes) > 0; {
		route := routes[0]
		routes = routes[1:]
		a := r.get(from, route, smp.AttrNodeInfo, 0)
		if a == nil || a.Status != 0 {
			t.Fatalf("route %v: answer %+v, drops %v", route, a, r.drops)
		}
		var n smp.NodeInfo
		n.Parse(&a.Data)
		if _, ok := seen[n.NodeGUID]; ok {
			continue
		}
		seen[n.NodeGUID] = route
		if n.Type != smp.Switch && len(route) > 0 {
			continue
		}
		for p := range n.NumPorts {
			routes = append(routes, append(slices.Clone(route), p+1))
		}
	}
	for _, n := range r.config.Fabric.Nodes {
		if route, ok := seen[n.GUID]; !ok {
			t.Errorf("no route led to %s", n.Description)
		} else if len(route) > 6 {
			t.Errorf("%s: a route of %d hops in a fat tree of three levels", n.Description, len(route))
		}
	}
	if len(r.drops) > 0 {
		t.Errorf("dropped: %v", r.drops)
	}
}

func TestCutAndRepairMoveTheLinkOfBothEnds(t *testing.T) {
	r := newRig(t, "star:2")
	a := r.adapters()
	at := topology.End{Node: a[1], Port: 1}
	peer := r.config.Fabric.Port(at).Peer
	state := func() [2]smp.PortState {
		return [2]smp.PortState{r.Node(at.Node).Link(1).State, r.Node(peer.Node).Link(peer.Port).State}
	}
	if s := state(); s != [2]smp.PortState{smp.PortInit, smp.PortInit} {
		t.Fatalf("at first: %v", s)
	}
	route := []uint8{1, uint8(peer.Port)}
	if r.get(a[0], route, smp.AttrNodeInfo, 0) == nil {
		t.Fatalf("no answer: %v", r.drops)
	}
	r.Cut(at)
	r.Run(r.now + time.Millisecond)
	if s := state(); s != [2]smp.PortState{smp.PortDown, smp.PortDown} {
		t.Fatalf("after the cut: %v", s)
	}
	if x := r.get(a[0], route, smp.AttrNodeInfo, 0); x != nil {
		t.Errorf("answer over a cable that was cut: %+v", x)
	}
	r.Repair(peer)
	r.Run(r.now + time.Millisecond)
	if s := state(); s != [2]smp.PortState{smp.PortInit, smp.PortInit} {
		t.Fatalf("after the repair: %v", s)
	}
	if r.get(a[0], route, smp.AttrNodeInfo, 0) == nil {
		t.Errorf("no answer over the repaired cable: %v", r.drops)
	}
}

// A port supports what its cable does, and a manager may enable less: the link trains to the
// highest that both ends have enabled.
func TestLinkTrainsToWhatIsEnabled(t *testing.T) {
	r := newRig(t, "star:2,width=4,speed=EDR")
	a := r.adapters()
	at := topology.End{Node: a[1], Port: 1}
	far := r.config.Fabric.Port(at).Peer
	route := []uint8{1}
	var info smp.PortInfo
	info.Parse(&r.get(a[0], route, smp.AttrPortInfo, uint32(far.Port)).Data)
	if info.WidthSupported != smp.Width1x|smp.Width4x || info.WidthActive != smp.Width4x ||
		info.ExtSpeedSupported != smp.ExtSpeedFDR|smp.ExtSpeedEDR || info.ExtSpeedActive != smp.ExtSpeedEDR {
		t.Fatalf("port of a 4x EDR cable: %+v", info)
	}
	info.WidthEnabled, info.ExtSpeedEnabled, info.State, info.Physical = smp.Width1x, smp.ExtSpeedFDR, smp.PortDown, smp.PhysicalPolling
	set := smp.NewDirected(mad.MethodSet, smp.AttrPortInfo, uint32(far.Port), 7, 0, route)
	info.Put(&set.Data)
	if x := r.ask(a[0], set); x == nil || x.Status != 0 {
		t.Fatalf("answer %+v, drops %v", x, r.drops)
	}
	r.Run(r.now + time.Millisecond)
	for _, e := range []topology.End{at, far} {
		if l := r.Node(e.Node).Link(e.Port); l.State != smp.PortInit || l.Width != smp.Width1x || l.ExtSpeed != smp.ExtSpeedFDR {
			t.Errorf("%v: %+v, expected 1x FDR in Init", e, l)
		}
	}
}

func TestViolationNamesBothQueuePairsOfADatagram(t *testing.T) {
	h := ib.LRH{Next: ib.LocalBTH, SL: 3, SLID: 4, DLID: 5}
	for _, c := range []struct {
		p      ib.Packet
		source uint32
	}{
		{ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0x8123, DestQPN: 77}, DETH: ib.DETH{QKey: 1, SrcQPN: 66}, Payload: make([]byte, 8)}, 66},
		{ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: 0x8123, DestQPN: 77}, Payload: make([]byte, 8)}, 0},
	} {
		want := agent.Violation{SLID: 4, DLID: 5, SL: 3, SourceQPN: c.source, DestinationQPN: 77, Key: 0x8123}
		frame := ib.AppendNative(nil, h, nil, &c.p)
		if v, ok := violation(frame); !ok || v != want {
			t.Errorf("opcode %v: %+v, %v, expected %+v", c.p.Opcode, v, ok, want)
		}
		frame[ib.LRHLen], want.SourceQPN = 0xc0, 0
		if v, ok := violation(frame); !ok || v != want {
			t.Errorf("an opcode of no transport: %+v, %v, expected %+v", v, ok, want)
		}
		if _, ok := violation(frame[:ib.LRHLen+4]); ok {
			t.Error("half a packet is a violation")
		}
	}
}

// An idle subnet may have grants of credit to send, but nothing grows.
func TestIdleSubnetKeepsNothing(t *testing.T) {
	r := newRig(t, "ring:4")
	r.Run(r.now + 10*time.Millisecond)
	if n := len(r.changed); n > 0 {
		t.Errorf("%d changes are left", n)
	}
	for i, m := range r.members {
		if len(m.inbox) > 0 {
			t.Errorf("node %d: %d packets are left", i, len(m.inbox))
		}
	}
}
