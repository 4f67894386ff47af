package agent

import (
	"maps"
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// board is a node whose links are all that a test says they are.
type board struct {
	links      []hardware.Link
	configs    []hardware.PortConfig
	sw         hardware.SwitchConfig
	lanes      map[[2]int]smp.SLtoVL
	weights    map[[2]int]smp.VLArbitration
	partitions map[[2]int]smp.PKeyTable
	linear     map[int]smp.LinearForwarding
	multicast  map[[2]int]smp.MulticastForwarding
	counters   []hardware.Counters
	commands   []hardware.LinkCommand
}

func newBoard(ports int) *board {
	b := &board{links: make([]hardware.Link, ports+1), configs: make([]hardware.PortConfig, ports+1), counters: make([]hardware.Counters, ports+1),
		lanes: map[[2]int]smp.SLtoVL{}, weights: map[[2]int]smp.VLArbitration{}, partitions: map[[2]int]smp.PKeyTable{},
		linear: map[int]smp.LinearForwarding{}, multicast: map[[2]int]smp.MulticastForwarding{}}
	for i := range b.links {
		b.links[i] = hardware.Link{State: smp.PortInit, Physical: smp.PhysicalLinkUp, Width: smp.Width4x, Speed: smp.SpeedQDR}
	}
	return b
}

func (b *board) clone() *board {
	c := *b
	c.links, c.configs, c.counters = append(c.links[:0:0], b.links...), append(c.configs[:0:0], b.configs...), append(c.counters[:0:0], b.counters...)
	c.commands = append(c.commands[:0:0], b.commands...)
	c.lanes, c.weights, c.partitions = maps.Clone(b.lanes), maps.Clone(b.weights), maps.Clone(b.partitions)
	c.linear, c.multicast = maps.Clone(b.linear), maps.Clone(b.multicast)
	return &c
}

func (b *board) Link(port int) hardware.Link { return b.links[port] }

func (b *board) SetLink(port int, c hardware.LinkCommand) bool {
	l := &b.links[port]
	b.commands = append(b.commands, c)
	switch c {
	case hardware.LinkArm:
		l.State = smp.PortArmed
	case hardware.LinkActivate:
		l.State = smp.PortActive
	case hardware.LinkDisable:
		l.State, l.Physical = smp.PortDown, smp.PhysicalDisabled
	default:
		l.State, l.Physical = smp.PortInit, smp.PhysicalLinkUp
	}
	return true
}

func (b *board) Configure(port int, c *hardware.PortConfig)   { b.configs[port] = *c }
func (b *board) ConfigureSwitch(c *hardware.SwitchConfig)     { b.sw = *c }
func (b *board) SLtoVL(in, out int) smp.SLtoVL                { return b.lanes[[2]int{in, out}] }
func (b *board) SetSLtoVL(in, out int, t *smp.SLtoVL)         { b.lanes[[2]int{in, out}] = *t }
func (b *board) Arbitration(port, half int) smp.VLArbitration { return b.weights[[2]int{port, half}] }
func (b *board) Partitions(port, block int) smp.PKeyTable     { return b.partitions[[2]int{port, block}] }
func (b *board) SetPartitions(port, block int, t *smp.PKeyTable) {
	b.partitions[[2]int{port, block}] = *t
}
func (b *board) Forwarding(block int) smp.LinearForwarding        { return b.linear[block] }
func (b *board) SetForwarding(block int, t *smp.LinearForwarding) { b.linear[block] = *t }
func (b *board) Counters(port int) *hardware.Counters             { return &b.counters[port] }
func (b *board) SetArbitration(port, half int, t *smp.VLArbitration) {
	b.weights[[2]int{port, half}] = *t
}
func (b *board) Multicast(block, position int) smp.MulticastForwarding {
	return b.multicast[[2]int{block, position}]
}
func (b *board) SetMulticast(block, position int, t *smp.MulticastForwarding) {
	b.multicast[[2]int{block, position}] = *t
}

const (
	switchGUID  = 0x0002c90000000001
	adapterGUID = 0x0002c90000000100
)

func switchConfig(ports int) *Config {
	return &Config{Type: smp.Switch, NumPorts: ports, Description: "leaf 1", SystemImageGUID: switchGUID, NodeGUID: switchGUID,
		PortGUIDs: []uint64{switchGUID}, VendorID: 0x5f00, DeviceID: 0x1, Revision: 0xa1, Partitions: 32, ExternalPartitions: 64,
		Width: smp.Width1x | smp.Width4x, Speed: 7, ExtSpeed: smp.ExtSpeedFDR | smp.ExtSpeedEDR, MTU: 5, VLs: smp.VL0to7, Arbitration: 8, GUIDs: 1,
		LinearCap: 48 * 1024, MulticastCap: 1024, EnhancedPort0: true}
}

func adapterConfig(ports int) *Config {
	c := switchConfig(ports)
	c.Type, c.Description, c.NodeGUID, c.Partitions, c.GUIDs = smp.Adapter, "host 1", adapterGUID, 128, 16
	c.PortGUIDs = nil
	for i := range ports {
		c.PortGUIDs = append(c.PortGUIDs, adapterGUID+1+uint64(i))
	}
	c.LinearCap, c.MulticastCap, c.ExternalPartitions, c.EnhancedPort0 = 0, 0, 0, false
	return c
}

// ask sends a packet routed by LID to an agent and returns its answer.
func ask(t *testing.T, a *Agent, now time.Duration, port int, p smp.Packet) (smp.Packet, Departure, Outcome) {
	t.Helper()
	var b [mad.Len]byte
	p.Put(&b)
	var out Departure
	o := a.Receive(now, &Arrival{Port: port, SLID: 7, DLID: 3, MAD: &b}, &out)
	var answer smp.Packet
	answer.Parse(&out.MAD)
	return answer, out, o
}

// get asks for an attribute that the agent must have.
func get(t *testing.T, a *Agent, port int, id mad.AttributeID, modifier uint32) smp.Packet {
	t.Helper()
	p, _, o := ask(t, a, 0, port, smp.NewRouted(mad.MethodGet, id, modifier, 9, 0))
	if o != Send || p.Status != mad.StatusOK || p.Method != mad.MethodGetResponse || p.TID != 9 {
		t.Fatalf("Get of attribute %#x, modifier %#x: %v, status %#x, method %#x", uint16(id), modifier, o, p.Status, p.Method)
	}
	return p
}

// set sends a Set and returns the status of the response.
func set(t *testing.T, a *Agent, port int, id mad.AttributeID, modifier uint32, v interface{ Put(*[64]byte) }) (smp.Packet, uint16) {
	t.Helper()
	p := smp.NewRouted(mad.MethodSet, id, modifier, 9, 0)
	v.Put(&p.Data)
	p, _, o := ask(t, a, 0, port, p)
	if o != Send {
		t.Fatalf("Set of attribute %#x, modifier %#x: %v", uint16(id), modifier, o)
	}
	return p, p.Status
}

func portInfo(t *testing.T, a *Agent, port, n int) (info smp.PortInfo) {
	t.Helper()
	p := get(t, a, port, smp.AttrPortInfo, uint32(n))
	info.Parse(&p.Data)
	return info
}
