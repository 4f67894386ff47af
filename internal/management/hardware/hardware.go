// Package hardware has the interface between a node of an InfiniBand fabric and
// the agents that manage it. The node has the ports, the crossbar and the
// tables; the agents read and write them as management packets ask.
//
// It has types alone: no rule of management, and no state.
package hardware

import (
	"time"

	"softrdma/internal/wire/mad/smp"
)

// A Node is a switch or an adapter. Its ports have the numbers 1 to n; port 0
// of a switch is its management port. The caller checks ports, blocks and
// values before a call.
//
// The node owns the tables. Their initial values are: no forwarding entry
// (NoPort, mask 0), SLtoVL of the service level modulo the number of lanes, one
// entry of the default partition.
type Node interface {
	// Link returns the state of a port other than a switch's port 0.
	Link(port int) Link
	// SetLink changes the state of a port other than a switch's port 0, and
	// reports whether the present state allows it.
	SetLink(port int, c LinkCommand) bool
	Configure(port int, c *PortConfig)
	ConfigureSwitch(c *SwitchConfig)

	// An adapter has one table for each port, with in and out of that port.
	SLtoVL(in, out int) smp.SLtoVL
	SetSLtoVL(in, out int, t *smp.SLtoVL)

	// The halves of the arbitration tables are smp.ArbitrationLow to
	// smp.ArbitrationHighUpper.
	Arbitration(port, half int) smp.VLArbitration
	SetArbitration(port, half int, t *smp.VLArbitration)

	Partitions(port, block int) smp.PKeyTable
	SetPartitions(port, block int, t *smp.PKeyTable)

	Forwarding(block int) smp.LinearForwarding
	SetForwarding(block int, t *smp.LinearForwarding)
	Multicast(block, position int) smp.MulticastForwarding
	SetMulticast(block, position int, t *smp.MulticastForwarding)

	// Counters returns the live counters of a port, for reading.
	Counters(port int) *Counters
}

// A Link is the state of a port.
type Link struct {
	State    smp.PortState
	Physical smp.PhysicalState
	Width    smp.Width // active, one bit
	Speed    smp.Speed
	ExtSpeed smp.ExtSpeed
}

// A LinkCommand changes the state of a port.
type LinkCommand uint8

// The commands. The logical ones are Down, Arm and Activate.
const (
	LinkDown     LinkCommand = iota + 1 // train the link again, to PortInit if the neighbor answers
	LinkArm                             // from PortInit
	LinkActivate                        // from PortArmed
	LinkSleep
	LinkPoll
	LinkDisable // until LinkPoll or LinkSleep
)

// String returns the name of the command.
func (c LinkCommand) String() string {
	names := [...]string{LinkDown: "down", LinkArm: "arm", LinkActivate: "activate", LinkSleep: "sleep", LinkPoll: "poll", LinkDisable: "disable"}
	if int(c) < len(names) && c != 0 {
		return names[c]
	}
	return "unknown link command"
}

// A LinkError is what is wrong with a link that stays up (IBTA 14.2.5.1, 16.1.3.5).
type LinkError uint8

// The errors of links.
const (
	LinkIntegrity     LinkError = iota // more physical errors than the threshold allows
	BufferOverrun                      // the neighbor disregards its credits
	FlowControlUpdate                  // no grant of credit within the time of the watchdog
	LinkErrors                         // how many there are
)

// Unlimited is a HOQLife or LifeTime that never ends.
const Unlimited time.Duration = 1<<63 - 1

// A PortConfig is what a subnet manager sets of a port.
type PortConfig struct {
	LID               uint16 // 0 if it has none, and for the ports of a switch other than port 0
	LMC               uint8
	MTU               int // bytes of payload that the neighbor takes
	VLs               int // data lanes in operation
	EnforceInbound    bool
	EnforceOutbound   bool
	FilterRawInbound  bool
	FilterRawOutbound bool
	HighLimit         uint8         // units of 4,096 bytes of high-priority packets; 0: one packet, 255: no limit
	HOQLife           time.Duration // how long a packet may wait at the head of its lane
	StallCount        uint8         // consecutive discards for HOQLife after which the lane stalls
	PhysicalErrors    uint8         // threshold of LinkIntegrity
	Width             smp.Width     // enabled, for the next training
	Speed             smp.Speed
	ExtSpeed          smp.ExtSpeed
	DownDefault       smp.PhysicalState // what LinkDown leads to: PhysicalPolling or PhysicalSleep
}

// A SwitchConfig is what a subnet manager sets of a switch.
type SwitchConfig struct {
	LinearTop                  uint16 // highest LID of the linear table
	MulticastTop               uint16 // highest LID of the multicast table; 0 for no limit
	DefaultMulticastPrimary    uint8
	DefaultMulticastNotPrimary uint8
	LifeTime                   time.Duration // how long a packet may stay in the switch
}

// Counters are what a port counted since it was made. They only grow: the
// performance agent remembers the values at which they were cleared. Data is
// in words of 4 bytes from the LRH on without the VCRC, and leaves link packets
// out (IBTA 16.1.3.5).
type Counters struct {
	XmitData, RcvData                   uint64
	XmitPackets, RcvPackets             uint64
	UnicastXmit, UnicastRcv             uint64
	MulticastXmit, MulticastRcv         uint64
	SymbolErrors                        uint64
	LinkErrorRecovery                   uint64
	LinkDowned                          uint64
	RcvErrors                           uint64
	RcvRemotePhysicalErrors             uint64
	RcvSwitchRelayErrors                uint64
	XmitDiscards                        uint64
	XmitConstraintErrors                uint64
	RcvConstraintErrors                 uint64
	LocalLinkIntegrityErrors            uint64
	ExcessiveBufferOverruns             uint64
	QP1Dropped                          uint64
	VL15Dropped                         uint64
	XmitWait                            uint64 // ticks in which a packet waited for credits or arbitration
	InactiveDiscards, NeighborMTU       uint64 // parts of XmitDiscards
	LifeTimeDiscards, HOQDiscards       uint64
	LocalPhysicalErrors, Malformed      uint64 // parts of RcvErrors
	BufferOverruns                      uint64
	DLIDMapping, VLMapping, LoopingDLID uint64 // parts of RcvSwitchRelayErrors
	FlowXmit, FlowRcv                   uint64 // link packets
	SLXmitData, SLRcvData               [16]uint64
	VLXmitWait                          [16]uint64
	VLFlowControlErrors                 [16]uint64  // times without a grant of credit
	marks                               *Marks      // nil before the first
	ops                                 *OpCounters // nil until a client asks
}

// OpCounters count the received packets of one opcode (IBTA 16.1.4): all, packets by VL, and
// data by VL. Each of the three has an opcode of its own. Ports count once a client has asked.
type OpCounters struct {
	Opcode        [3]uint8 // by OpReceived, OpVLPackets and OpVLData
	Packets, Data uint64
	VLPackets     [16]uint64
	VLData        [16]uint64
}

// The parts of OpCounters.
const (
	OpReceived = iota
	OpVLPackets
	OpVLData
)

// Ops returns the port's, which take no memory before.
func (c *Counters) Ops() *OpCounters {
	if c.ops == nil {
		c.ops = new(OpCounters)
	}
	return c.ops
}

// CountOp counts a packet in OpCounters if a client has asked for them.
func (c *Counters) CountOp(opcode, vl uint8, words uint64) {
	o := c.ops
	if o == nil {
		return
	}
	if o.Opcode[OpReceived] == opcode {
		o.Packets++
		o.Data += words
	}
	if o.Opcode[OpVLPackets] == opcode {
		o.VLPackets[vl]++
	}
	if o.Opcode[OpVLData] == opcode {
		o.VLData[vl] += words
	}
}

// Marks count received packets with a mark of congestion (annex A10), all and by SL.
type Marks struct {
	FECN, BECN     uint64
	SLFECN, SLBECN [16]uint64
}

// Marks returns the port's, which take no memory before.
func (c *Counters) Marks() *Marks {
	if c.marks == nil {
		c.marks = new(Marks)
	}
	return c.marks
}
