// Package agent has the agents that every node of an InfiniBand fabric has:
// the subnet management interface, which forwards directed routes (IBTA
// 14.2.2), the subnet management agent (IBTA 14.3), which answers a manager and
// sends traps, the performance agent (IBTA 16.1), and the congestion control agent
// (Annex A10).
//
// It decides what a management packet may read and change. The ports, tables
// and counters themselves belong to the node, behind hardware.Node. Packets for
// managers and programs of the node go to the caller. The package does no I/O,
// reads no clock, and never panics on any packet.
package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// A Config describes a node as it was built.
type Config struct {
	Type            smp.NodeType
	NumPorts        int // at most 254
	Description     string
	SystemImageGUID uint64
	NodeGUID        uint64
	PortGUIDs       []uint64 // of an adapter's ports, the first that of port 1; a switch has one
	VendorID        uint32
	DeviceID        uint16
	Revision        uint32
	Partitions      int // entries of the P_Key table of an adapter's port, or of a switch's port 0

	// What the ports support.
	Width       smp.Width
	Speed       smp.Speed
	ExtSpeed    smp.ExtSpeed
	MTU         mad.MTU
	VLs         smp.VLs
	Arbitration uint8 // entries of each arbitration table, at most 64
	GUIDs       uint8 // GUIDs of an end port

	// Of a switch alone.
	LinearCap          uint16
	MulticastCap       uint16
	ExternalPartitions int // entries of the P_Key table of a port other than 0
	EnhancedPort0      bool

	// Notify, unless nil, is called when a manager changed what the programs of
	// an end port depend on.
	Notify func(port int, e Event)
}

// An Event is a change that a subnet manager made at an end port.
type Event uint8

// The events.
const (
	LIDChanged Event = iota + 1
	ManagerChanged
	ClientReregister
	PartitionsChanged
	GUIDsChanged
	PrefixChanged
)

// An Arrival is a management packet at the node.
type Arrival struct {
	Port       int // by which it came; 0 for a program at a switch's port 0
	SLID, DLID uint16
	SL         uint8
	QPN        uint32 // 0 or 1
	SourceQPN  uint32
	PKey       uint16
	MAD        *[mad.Len]byte
}

// A Departure is a management packet that leaves the node.
type Departure struct {
	Port       int // 0 at a switch: the forwarding table decides
	SLID, DLID uint16
	SL         uint8
	QPN        uint32 // of the destination
	SourceQPN  uint32
	QKey       uint32
	PKey       uint16
	MAD        [mad.Len]byte
	Reason     reason.Detail // why a packet is discarded
}

// An Outcome says what happens to a management packet.
type Outcome uint8

// The outcomes.
const (
	Discard Outcome = iota // nothing leaves: for the reason in the departure, or without one if no answer is due
	Send                   // the departure leaves the node
	Local                  // the departure's MAD is for the programs of the node
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Discard:
		return "discard"
	case Send:
		return "send"
	case Local:
		return "local"
	}
	return "unknown outcome"
}

// An Agent is the agents of one node: it forwards packets of subnet management, and passes
// those for the node to the agent of their class. It is not safe for concurrent use.
type Agent struct {
	settings
	traps
	subnet      subnetAgent
	performance performance
	congestion  congestion
}

// settings are what the node is, and what managers have set of it. All agents of the node work
// on them.
type settings struct {
	config      Config
	node        hardware.Node
	description smp.NodeDescription
	ports       []port // by number; index 0 of an adapter is not used
	ends        []end  // by number of an end port
	sw          smp.SwitchInfo
}

// A port is what a manager sets of a link.
type port struct {
	config         hardware.PortConfig
	widthEnabled   smp.Width
	speedEnabled   smp.Speed
	extEnabled     smp.ExtSpeed
	downDefault    smp.PhysicalState
	neighborMTU    mad.MTU
	vls            smp.VLs
	hoqLife        uint8
	stallCount     uint8
	localPhyErrors uint8
	overrunErrors  uint8
	initTypeReply  uint8
	pkeyViolations uint16 // of a switch's port: inbound enforcement
	state          smp.PortState
}

// An end is what a manager sets of a port that has a LID.
type end struct {
	mkey            uint64
	protect         uint8
	leasePeriod     uint16
	leaseEnd        time.Duration // Never unless the lease runs out
	guids           []uint64
	prefix          uint64
	lid, smLID      uint16
	lmc, smSL       uint8
	subnetTimeout   uint8
	capability      smp.Capability
	trapSuppression uint8
	mkeyViolations  uint16
	pkeyViolations  uint16
	qkeyViolations  uint16
	traps           [trapKinds]trap
}

// defaultPrefix is the GID prefix of a port that no manager has set (IBTA 4.1.1).
const defaultPrefix = 0xfe80000000000000

// defaultErrors are the thresholds of errors of links.
const defaultErrors = 8

// defaultSubnetTimeout is a second.
const defaultSubnetTimeout = 18

// New returns the agents of a node.
func New(c *Config, n hardware.Node) *Agent {
	a := &Agent{settings: settings{config: *c, node: n, description: smp.NewNodeDescription(c.Description)}}
	s := &a.settings
	a.traps.settings, a.subnet.settings = s, s
	a.performance = performance{settings: s, counters: make([]baseline, c.NumPorts+1)}
	a.congestion = congestion{settings: s, leaseEnd: Never}
	a.config.PortGUIDs = append([]uint64(nil), c.PortGUIDs...)
	a.ports = make([]port, c.NumPorts+1)
	for i := range a.ports {
		// A port starts with all that it supports, as adapters and switches do. A manager resets
		// a link whose MTU or lanes it has to change, which counts as LinkDowned.
		a.ports[i] = port{widthEnabled: c.Width, speedEnabled: c.Speed, extEnabled: c.ExtSpeed,
			downDefault: smp.PhysicalPolling, neighborMTU: max(c.MTU, 1), vls: max(c.VLs, smp.VL0), hoqLife: 20, localPhyErrors: defaultErrors, overrunErrors: defaultErrors, state: smp.PortDown}
	}
	ends := 1
	if c.Type != smp.Switch {
		ends = c.NumPorts + 1
	}
	a.ends = make([]end, ends)
	for i := range a.ends {
		a.ends[i] = end{prefix: defaultPrefix, leaseEnd: Never, subnetTimeout: defaultSubnetTimeout, capability: capabilities(c),
			guids: make([]uint64, max(int(c.GUIDs), 1))}
		a.ends[i].guids[0] = a.portGUID(i)
	}
	a.sw = smp.SwitchInfo{LinearCap: c.LinearCap, MulticastCap: c.MulticastCap, LifeTime: 20,
		PartitionCap: uint16(c.ExternalPartitions), EnforceInbound: c.ExternalPartitions > 0, EnforceOutbound: c.ExternalPartitions > 0,
		FilterRawInbound: true, FilterRawOutbound: true, EnhancedPort0: c.EnhancedPort0}
	return a
}

func capabilities(c *Config) smp.Capability {
	m := smp.CapTrap | smp.CapSLMapping | smp.CapSystemImageGUID | smp.CapClientReregistration | smp.CapMaskNotice |
		smp.CapOtherLocalChangesNotice | smp.CapCapabilityMask2
	if c.ExtSpeed != 0 {
		m |= smp.CapExtendedSpeeds
	}
	if c.Type == smp.Switch {
		return m | smp.CapPKeyExternalPortTrap | smp.CapMulticastFDBTop
	}
	return m | smp.CapAutomaticMigration | smp.CapCommunicationManagement
}

func (s *settings) portGUID(p int) uint64 {
	if s.isSwitch() {
		p = 1
	}
	if p < 1 || p > len(s.config.PortGUIDs) {
		return s.config.NodeGUID
	}
	return s.config.PortGUIDs[p-1]
}

func (s *settings) isSwitch() bool { return s.config.Type == smp.Switch }

// endPort returns the number of the end port that a packet at a port belongs to.
func (s *settings) endPort(p int) int {
	if s.isSwitch() {
		return 0
	}
	return p
}

// valid reports whether the node has the port by which a packet came.
func (s *settings) valid(p int) bool {
	return p >= 0 && p <= s.config.NumPorts && (p > 0 || s.isSwitch())
}

// LID returns the base LID of an end port and its LMC.
func (s *settings) LID(port int) (lid uint16, lmc uint8) {
	e := &s.ends[s.endPort(port)]
	return e.lid, e.lmc
}

// Manager returns the LID and service level of the master manager.
func (s *settings) Manager(port int) (lid uint16, sl uint8) {
	e := &s.ends[s.endPort(port)]
	return e.smLID, e.smSL
}

// GID returns an entry of the GID table of an end port, and reports whether it
// is set.
func (s *settings) GID(port, i int) (mad.GID, bool) {
	e := &s.ends[s.endPort(port)]
	if i < 0 || i >= len(e.guids) || e.guids[i] == 0 {
		return mad.GID{}, false
	}
	return gid(e.prefix, e.guids[i]), true
}

// Capability returns the capability mask of an end port.
func (s *settings) Capability(port int) smp.Capability { return s.ends[s.endPort(port)].capability }

// owns reports whether a LID is one of an end port's.
func (e *end) owns(lid uint16) bool { return lid != 0 && e.lid != 0 && lid>>e.lmc == e.lid>>e.lmc }

func (s *settings) notify(port int, e Event) {
	if s.config.Notify != nil {
		s.config.Notify(port, e)
	}
}
