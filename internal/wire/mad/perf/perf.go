// Package perf has the formats of performance management (IBTA 16.1): the
// place of each counter in the attributes that count. Attributes are read and
// written counter by counter, since a Set names the counters that it changes.
//
// It does no I/O, keeps no state and never panics on any input.
package perf

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// ClassVersion is the version of the class (IBTA 16.1.1).
const ClassVersion = 1

// DataAt is where the attribute begins in the datagram, DataLen its length.
const (
	DataAt  = 64
	DataLen = mad.Len - DataAt
)

// Attributes (IBTA 16.1.2).
const (
	AttrPortSamplesControl   mad.AttributeID = 0x0010
	AttrPortSamplesResult    mad.AttributeID = 0x0011
	AttrPortCounters         mad.AttributeID = 0x0012
	AttrRcvErrorDetails      mad.AttributeID = 0x0015
	AttrXmitDiscardDetails   mad.AttributeID = 0x0016
	AttrOpReceived           mad.AttributeID = 0x0017
	AttrFlowControl          mad.AttributeID = 0x0018
	AttrVLOpPackets          mad.AttributeID = 0x0019
	AttrVLOpData             mad.AttributeID = 0x001a
	AttrVLFlowControlErrors  mad.AttributeID = 0x001b
	AttrVLXmitWait           mad.AttributeID = 0x001c
	AttrPortCountersExtended mad.AttributeID = 0x001d
	AttrExtendedSpeeds       mad.AttributeID = 0x001f // errors of links of FDR and above
	AttrSwitchVLCongestion   mad.AttributeID = 0x0030
	AttrRcvCongestion        mad.AttributeID = 0x0031
	AttrRcvFECNSL            mad.AttributeID = 0x0032
	AttrRcvBECNSL            mad.AttributeID = 0x0033
	AttrXmitCongestion       mad.AttributeID = 0x0034
	AttrVLXmitCongestion     mad.AttributeID = 0x0035
	AttrXmitDataSL           mad.AttributeID = 0x0036
	AttrRcvDataSL            mad.AttributeID = 0x0037
)

// Capabilities of the class in ClassPortInfo (IBTA 16.1.3.1).
const (
	CapAllPortSelect = 1 << 8
	CapExtendedWidth = 1 << 9
	CapXmitWait      = 1 << 12
)

// AllPorts as PortSelect means the sum of all ports.
const AllPorts = 0xff

// A Counter is the place of a counter in an attribute. Its index in the
// attribute is its bit of CounterSelect; from bit 16 on, of CounterSelect2.
type Counter struct {
	Name            string // of the specification
	Byte, Bit, Bits int
}

// Max returns the value at which the counter stays.
func (c Counter) Max() uint64 { return 1<<c.Bits - 1 }

// Get reads the counter.
func (c Counter) Get(b *[DataLen]byte) uint64 {
	v := binary.BigEndian.Uint64(b[c.Byte:])
	return v << c.Bit >> (64 - c.Bits)
}

// Put writes the counter, at most its highest value.
func (c Counter) Put(b *[DataLen]byte, v uint64) {
	shift := 64 - c.Bit - c.Bits
	old := binary.BigEndian.Uint64(b[c.Byte:]) &^ (c.Max() << shift)
	binary.BigEndian.PutUint64(b[c.Byte:], old|min(v, c.Max())<<shift)
}

// OpCode returns the opcode of the packets that AttrOpReceived, AttrVLOpPackets and
// AttrVLOpData count.
func OpCode(b *[DataLen]byte) uint8 { return b[0] }

// SetOpCode writes the opcode.
func SetOpCode(b *[DataLen]byte, op uint8) { b[0] = op }

// PortSelect returns the port that the attribute is of.
func PortSelect(b *[DataLen]byte) uint8 { return b[1] }

// SetPortSelect writes the port that the attribute is of.
func SetPortSelect(b *[DataLen]byte, port uint8) { b[1] = port }

// CounterSelect returns the counters that a Set writes, by index.
func CounterSelect(a mad.AttributeID, b *[DataLen]byte) uint32 {
	s := uint32(binary.BigEndian.Uint16(b[2:]))
	if a == AttrPortCounters {
		s |= uint32(b[18]) << 16 // CounterSelect2
	}
	return s
}

// SetCounterSelect writes the counters that a Set writes, by index.
func SetCounterSelect(a mad.AttributeID, b *[DataLen]byte, s uint32) {
	binary.BigEndian.PutUint16(b[2:], uint16(s))
	if a == AttrPortCounters {
		b[18] = uint8(s >> 16)
	}
}

// PortCounters (IBTA 16.1.3.5).
//
//	 0 |   Reserved    |  PortSelect   |         CounterSelect         |
//	 4 |      SymbolErrorCounter       |LinkErrRecovery|  LinkDowned   |
//	 8 |         PortRcvErrors         |  PortRcvRemotePhysicalErrors  |
//	12 |   PortRcvSwitchRelayErrors    |       PortXmitDiscards        |
//	16 |XmitConstraint | RcvConstraint |CounterSelect2 |LocLink|Overrun|
//	20 |           Reserved            |         VL15Dropped           |
//	24 |     PortXmitData, PortRcvData, PortXmitPkts, PortRcvPkts      |
//	40 |                         PortXmitWait                          |
var PortCounters = []Counter{
	{"SymbolErrorCounter", 4, 0, 16},
	{"LinkErrorRecoveryCounter", 6, 0, 8},
	{"LinkDownedCounter", 7, 0, 8},
	{"PortRcvErrors", 8, 0, 16},
	{"PortRcvRemotePhysicalErrors", 10, 0, 16},
	{"PortRcvSwitchRelayErrors", 12, 0, 16},
	{"PortXmitDiscards", 14, 0, 16},
	{"PortXmitConstraintErrors", 16, 0, 8},
	{"PortRcvConstraintErrors", 17, 0, 8},
	{"LocalLinkIntegrityErrors", 19, 0, 4},
	{"ExcessiveBufferOverrunErrors", 19, 4, 4},
	{"VL15Dropped", 22, 0, 16},
	{"PortXmitData", 24, 0, 32},
	{"PortRcvData", 28, 0, 32},
	{"PortXmitPkts", 32, 0, 32},
	{"PortRcvPkts", 36, 0, 32},
	{"PortXmitWait", 40, 0, 32},
}

// PortCountersExtended (IBTA 16.1.4): 8 counters of 64 bits from byte 8 on.
var PortCountersExtended = []Counter{
	{"PortXmitData", 8, 0, 64},
	{"PortRcvData", 16, 0, 64},
	{"PortXmitPkts", 24, 0, 64},
	{"PortRcvPkts", 32, 0, 64},
	{"PortUnicastXmitPkts", 40, 0, 64},
	{"PortUnicastRcvPkts", 48, 0, 64},
	{"PortMulticastXmitPkts", 56, 0, 64},
	{"PortMulticastRcvPkts", 64, 0, 64},
}

// RcvErrorDetails are parts of PortRcvErrors and PortRcvSwitchRelayErrors (IBTA 16.1.4).
var RcvErrorDetails = []Counter{
	{"PortLocalPhysicalErrors", 4, 0, 16},
	{"PortMalformedPktErrors", 6, 0, 16},
	{"PortBufferOverrunErrors", 8, 0, 16},
	{"PortDLIDMappingErrors", 10, 0, 16},
	{"PortVLMappingErrors", 12, 0, 16},
	{"PortLoopingErrors", 14, 0, 16},
}

// XmitDiscardDetails are parts of PortXmitDiscards (IBTA 16.1.4).
var XmitDiscardDetails = []Counter{
	{"PortInactiveDiscards", 4, 0, 16},
	{"PortNeighborMTUDiscards", 6, 0, 16},
	{"PortSwLifetimeLimitDiscards", 8, 0, 16},
	{"PortSwHOQLifetimeLimitDiscards", 10, 0, 16},
}

// FlowControl are the link packets (IBTA 16.1.4, PortFlowCtlCounters).
var FlowControl = []Counter{
	{"PortXmitFlowPkts", 4, 0, 32},
	{"PortRcvFlowPkts", 8, 0, 32},
}

// OpReceived are the received packets with one opcode (IBTA 16.1.4, PortOpRcvCounters).
var OpReceived = []Counter{
	{"PortOpRcvPkts", 4, 0, 32},
	{"PortOpRcvData", 8, 0, 32},
}

// RcvCongestion are the received packets with a mark of congestion (annex A10,
// PortRcvConCtrl).
var RcvCongestion = []Counter{
	{"PortPktRcvFECN", 4, 0, 32},
	{"PortPktRcvBECN", 8, 0, 32},
}

// Counters of each SL or VL: 16 of them from byte 4 on.
var (
	XmitDataSL = each("XmtDataSL", 32)
	RcvDataSL  = each("RcvDataSL", 32)
	VLXmitWait = each("PortVLXmitWait", 16)
	RcvFECNSL  = each("PortSLRcvFECN", 32)
	RcvBECNSL  = each("PortSLRcvBECN", 32)

	VLOpPackets = each("PortVLOpPackets", 16) // received, with one opcode
	VLOpData    = each("PortVLOpData", 32)

	VLFlowControlErrors = each("PortVLXmitFlowCtlUpdateErrors", 2)
)

func each(name string, bits int) (t []Counter) {
	for i := range 16 {
		t = append(t, Counter{name + [...]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}[i],
			4 + i*bits/8, i * bits % 8, bits})
	}
	return t
}

// Counters returns the counters of an attribute, none if it has none.
func Counters(a mad.AttributeID) []Counter {
	switch a {
	case AttrPortCounters:
		return PortCounters
	case AttrPortCountersExtended:
		return PortCountersExtended
	case AttrRcvErrorDetails:
		return RcvErrorDetails
	case AttrXmitDiscardDetails:
		return XmitDiscardDetails
	case AttrOpReceived:
		return OpReceived
	case AttrVLOpPackets:
		return VLOpPackets
	case AttrVLOpData:
		return VLOpData
	case AttrFlowControl:
		return FlowControl
	case AttrXmitDataSL:
		return XmitDataSL
	case AttrRcvDataSL:
		return RcvDataSL
	case AttrVLFlowControlErrors:
		return VLFlowControlErrors
	case AttrVLXmitWait:
		return VLXmitWait
	case AttrRcvCongestion:
		return RcvCongestion
	case AttrRcvFECNSL:
		return RcvFECNSL
	case AttrRcvBECNSL:
		return RcvBECNSL
	}
	return nil
}
