package node

import (
	"testing"
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A managed world has an agent at each node.
type managed struct {
	*world
	agents []*agent.Agent
	local  []smp.Packet // for the programs of a node
}

// newManaged is two adapters with a switch between them, and links in INIT.
func newManaged(t *testing.T) *managed {
	m := &managed{world: newWorld(t)}
	line(m.world, 1, Config{Port: quiet})
	for i, n := range m.nodes {
		c := agent.Config{Type: smp.Adapter, NumPorts: n.Ports(), NodeGUID: uint64(i + 1), Partitions: 32,
			Width: smp.Width4x, Speed: smp.SpeedQDR, MTU: 5, VLs: smp.VL0to3, Arbitration: 8, GUIDs: 8}
		if n.config.Switch {
			c.Type, c.LinearCap, c.MulticastCap, c.ExternalPartitions = smp.Switch, 49152, 1024, 32
		}
		m.agents = append(m.agents, agent.New(&c, n))
	}
	m.deliver = m.receive
	m.run(m.now + time.Microsecond)
	return m
}

// receive gives a packet that ended at a node to its agent.
func (m *managed) receive(at end, frame []byte) {
	var n ib.Native
	var p ib.Packet
	if n.Parse(frame) != ib.OK || p.Parse(n.Body) != ib.OK || p.DestQPN > 1 || len(p.Payload) != mad.Len {
		return
	}
	m.handle(at.node, (*agent.Agent).Receive, &agent.Arrival{Port: at.port, SLID: uint16(n.LRH.SLID), DLID: uint16(n.LRH.DLID),
		QPN: p.DestQPN, SourceQPN: p.DETH.SrcQPN, PKey: p.PKey, MAD: (*[mad.Len]byte)(p.Payload)})
}

func (m *managed) handle(node int, f func(*agent.Agent, time.Duration, *agent.Arrival, *agent.Departure) agent.Outcome, in *agent.Arrival) {
	var out agent.Departure
	switch f(m.agents[node], m.now, in, &out) {
	case agent.Discard:
		m.t.Errorf("node %d discards a packet: %v", node, out.Reason)
	case agent.Local:
		var p smp.Packet
		p.Parse(&out.MAD)
		m.local = append(m.local, p)
	case agent.Send:
		h := ib.LRH{VL: ib.ManagementVL, SL: out.SL, Next: ib.LocalBTH, DLID: ib.LID(out.DLID), SLID: ib.LID(out.SLID)}
		m.nodes[node].Send(m.now, out.Port, ib.AppendNative(nil, h, nil, &ib.Packet{
			BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff, DestQPN: out.QPN}, DETH: ib.DETH{SrcQPN: out.SourceQPN}, Payload: out.MAD[:]}))
	}
}

// ask sends a packet from the first adapter and returns the answer.
func (m *managed) ask(p smp.Packet) smp.Packet {
	m.t.Helper()
	var b [mad.Len]byte
	p.Put(&b)
	m.local = nil
	m.handle(0, (*agent.Agent).Originate, &agent.Arrival{Port: 1, SLID: smp.PermissiveLID, DLID: smp.PermissiveLID, MAD: &b})
	m.run(m.now + 100*time.Microsecond)
	if len(m.local) != 1 || m.local[0].Status != mad.StatusOK || m.local[0].TID != p.TID {
		m.t.Fatalf("%d answers: %+v; dropped %v", len(m.local), m.local, m.drops)
	}
	return m.local[0]
}

// A manager at the first adapter finds the nodes, activates the links, sets the tables and
// reads the counters. Then data goes along the tables.
func TestAgentsManageNodesOverTheLinks(t *testing.T) {
	m := newManaged(t)
	paths := [][]uint8{{0, 1, 2}, {0, 1}, {0}} // the other adapter, the switch, the own one
	nodes := []int{1, 2, 0}
	for i, path := range paths {
		answer := m.ask(smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 7, 0, path[1:]))
		var info smp.NodeInfo
		if info.Parse(&answer.Data); info.NodeGUID != uint64(nodes[i]+1) {
			t.Errorf("path %v: node %#x, expected %#x", path, info.NodeGUID, nodes[i]+1)
		}
	}
	set := func(path []uint8, number uint32, change func(*smp.PortInfo)) {
		t.Helper()
		answer := m.ask(smp.NewDirected(mad.MethodGet, smp.AttrPortInfo, number, 8, 0, path))
		var info smp.PortInfo
		info.Parse(&answer.Data)
		info.State, info.Physical = smp.PortNoChange, smp.PhysicalNoChange
		change(&info)
		p := smp.NewDirected(mad.MethodSet, smp.AttrPortInfo, number, 9, 0, path)
		info.Put(&p.Data)
		m.ask(p)
	}
	ports := []struct {
		path   []uint8
		number uint32
		lid    uint16
	}{{[]uint8{1, 2}, 1, lidOf(1)}, {[]uint8{1}, 2, 0}, {[]uint8{1}, 1, 0}, {nil, 1, lidOf(0)}}
	for _, state := range []smp.PortState{smp.PortArmed, smp.PortActive} {
		for _, p := range ports {
			set(p.path, p.number, func(i *smp.PortInfo) {
				i.State, i.NeighborMTU, i.OperationalVLs = state, 5, smp.VL0to3
				if p.lid != 0 {
					i.LID, i.MasterSMLID = p.lid, lidOf(0)
				}
			})
		}
	}
	p := smp.NewDirected(mad.MethodSet, smp.AttrLinearForwarding, 0, 10, 0, []uint8{1})
	var table smp.LinearForwarding
	table[lidOf(0)], table[lidOf(1)] = 1, 2
	table.Put(&p.Data)
	m.ask(p)
	p = m.ask(smp.NewDirected(mad.MethodGet, smp.AttrSwitchInfo, 0, 11, 0, []uint8{1}))
	var sw smp.SwitchInfo
	sw.Parse(&p.Data)
	sw.LinearTop, sw.PortStateChange = 63, false
	p = smp.NewDirected(mad.MethodSet, smp.AttrSwitchInfo, 0, 12, 0, []uint8{1})
	sw.Put(&p.Data)
	m.ask(p)

	m.arrived[1] = nil
	m.send(0, 1, 0, 0, 1000)
	m.run(m.now + 10*time.Microsecond)
	if len(m.arrived[1]) != 1 {
		t.Errorf("%d data packets arrived, dropped %v", len(m.arrived[1]), m.drops)
	}
	m.checkCounters()
}
