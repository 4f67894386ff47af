package smp

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// PortInfo has the state, capabilities and settings of a port (IBTA 14.2.5.6).
// The modifier is the port; on an adapter 0 is the port that the packet arrives
// at.
//
//	 0 |                         M_Key (8 bytes)                       |
//	 8 |                       GidPrefix (8 bytes)                     |
//	16 |              LID              |          MasterSMLID          |
//	20 |                        CapabilityMask                         |
//	24 |           DiagCode            |       M_KeyLeasePeriod        |
//	28 | LocalPortNum  | WidthEnabled  | WidthSupported|  WidthActive  |
//	32 |SpdSup | State |Physic.|DownDef|MKP|Resvd| LMC |SpdAct | SpdEn |
//	36 |NeigMTU|MstSMSL| VLCap |InitTyp|  VLHighLimit  |VLArbitHighCap |
//	40 |VLArbitrLowCap |InitRep|MTUCap |Stall| HOQLife |OperVLs|I|O|i|o|
//	44 |        M_KeyViolations        |        P_KeyViolations        |
//	48 |        Q_KeyViolations        |    GUIDCap    |C|Mcs|SubnTimeo|
//	52 |Resvd|RespTimeV|PhyErr |Overrun|         MaxCreditHint         |
//	56 |   Reserved    |            LinkRoundTripLatency               |
//	60 |        CapabilityMask2        |ExtAct |ExtSup |Resvd|ExtEnable|
//
// I and O enforce partitions of arriving and leaving packets, i and o filter
// raw ones, C is ClientReregister, Mcs MulticastPKeyTrapSuppressionEnabled.
type PortInfo struct {
	MKey                     uint64
	GIDPrefix                uint64
	LID                      uint16
	MasterSMLID              uint16
	CapabilityMask           Capability
	DiagCode                 uint16
	MKeyLeasePeriod          uint16 // seconds; 0 never expires
	LocalPort                uint8
	WidthEnabled             Width
	WidthSupported           Width
	WidthActive              Width
	SpeedSupported           Speed     // 4 bits
	State                    PortState // 4 bits
	Physical                 PhysicalState
	DownDefault              PhysicalState // PhysicalSleep or PhysicalPolling
	MKeyProtect              uint8         // 2 bits
	LMC                      uint8         // 3 bits
	SpeedActive              Speed
	SpeedEnabled             Speed
	NeighborMTU              mad.MTU // 4 bits
	MasterSMSL               uint8   // 4 bits
	VLCap                    VLs
	InitType                 uint8 // 4 bits
	VLHighLimit              uint8
	VLArbitrationHighCap     uint8
	VLArbitrationLowCap      uint8
	InitTypeReply            uint8 // 4 bits
	MTUCap                   mad.MTU
	VLStallCount             uint8 // 3 bits
	HOQLife                  uint8 // 5 bits: 4.096 µs times 2 to its power; above 19 unlimited
	OperationalVLs           VLs
	EnforceInbound           bool
	EnforceOutbound          bool
	FilterRawInbound         bool
	FilterRawOutbound        bool
	MKeyViolations           uint16
	PKeyViolations           uint16
	QKeyViolations           uint16
	GUIDCap                  uint8 // blocks of 8 GUIDs times 8
	ClientReregister         bool
	McastPKeyTrapSuppression uint8 // 2 bits
	SubnetTimeout            uint8 // 5 bits: 4.096 µs times 2 to its power, the least time between traps
	RespTimeValue            uint8 // 5 bits
	LocalPhyErrors           uint8 // 4 bits: threshold
	OverrunErrors            uint8 // 4 bits: threshold
	MaxCreditHint            uint16
	LinkRoundTripLatency     uint32 // 24 bits
	CapabilityMask2          uint16
	ExtSpeedActive           ExtSpeed // 4 bits
	ExtSpeedSupported        ExtSpeed // 4 bits
	ExtSpeedEnabled          ExtSpeed // 5 bits
}

// Parse reads the attribute.
func (p *PortInfo) Parse(b *[DataLen]byte) {
	p.parseIdentity(b)
	p.parseLink(b)
	p.parseLanes(b)
	p.MKeyViolations = binary.BigEndian.Uint16(b[44:])
	p.PKeyViolations = binary.BigEndian.Uint16(b[46:])
	p.QKeyViolations = binary.BigEndian.Uint16(b[48:])
	p.GUIDCap = b[50]
	p.ClientReregister, p.McastPKeyTrapSuppression, p.SubnetTimeout = b[51]&0x80 != 0, b[51]>>5&3, b[51]&0x1f
	p.RespTimeValue = b[52] & 0x1f
	p.LocalPhyErrors, p.OverrunErrors = b[53]>>4, b[53]&0xf
	p.MaxCreditHint = binary.BigEndian.Uint16(b[54:])
	p.LinkRoundTripLatency = binary.BigEndian.Uint32(b[56:]) & 0xffffff
	p.CapabilityMask2 = binary.BigEndian.Uint16(b[60:])
	p.ExtSpeedActive, p.ExtSpeedSupported, p.ExtSpeedEnabled = ExtSpeed(b[62]>>4), ExtSpeed(b[62]&0xf), ExtSpeed(b[63]&0x1f)
}

func (p *PortInfo) parseIdentity(b *[DataLen]byte) {
	p.MKey = binary.BigEndian.Uint64(b[0:])
	p.GIDPrefix = binary.BigEndian.Uint64(b[8:])
	p.LID = binary.BigEndian.Uint16(b[16:])
	p.MasterSMLID = binary.BigEndian.Uint16(b[18:])
	p.CapabilityMask = Capability(binary.BigEndian.Uint32(b[20:]))
	p.DiagCode = binary.BigEndian.Uint16(b[24:])
	p.MKeyLeasePeriod = binary.BigEndian.Uint16(b[26:])
	p.LocalPort = b[28]
}

func (p *PortInfo) parseLink(b *[DataLen]byte) {
	p.WidthEnabled, p.WidthSupported, p.WidthActive = Width(b[29]), Width(b[30]), Width(b[31])
	p.SpeedSupported, p.State = Speed(b[32]>>4), PortState(b[32]&0xf)
	p.Physical, p.DownDefault = PhysicalState(b[33]>>4), PhysicalState(b[33]&0xf)
	p.MKeyProtect, p.LMC = b[34]>>6, b[34]&7
	p.SpeedActive, p.SpeedEnabled = Speed(b[35]>>4), Speed(b[35]&0xf)
}

func (p *PortInfo) parseLanes(b *[DataLen]byte) {
	p.NeighborMTU, p.MasterSMSL = mad.MTU(b[36]>>4), b[36]&0xf
	p.VLCap, p.InitType = VLs(b[37]>>4), b[37]&0xf
	p.VLHighLimit, p.VLArbitrationHighCap, p.VLArbitrationLowCap = b[38], b[39], b[40]
	p.InitTypeReply, p.MTUCap = b[41]>>4, mad.MTU(b[41]&0xf)
	p.VLStallCount, p.HOQLife = b[42]>>5, b[42]&0x1f
	p.OperationalVLs = VLs(b[43] >> 4)
	p.EnforceInbound, p.EnforceOutbound = b[43]&8 != 0, b[43]&4 != 0
	p.FilterRawInbound, p.FilterRawOutbound = b[43]&2 != 0, b[43]&1 != 0
}

// Put writes the attribute.
func (p *PortInfo) Put(b *[DataLen]byte) {
	p.putIdentity(b)
	p.putLink(b)
	p.putLanes(b)
	binary.BigEndian.PutUint16(b[44:], p.MKeyViolations)
	binary.BigEndian.PutUint16(b[46:], p.PKeyViolations)
	binary.BigEndian.PutUint16(b[48:], p.QKeyViolations)
	b[50] = p.GUIDCap
	b[51] = bit(p.ClientReregister, 7) | p.McastPKeyTrapSuppression&3<<5 | p.SubnetTimeout&0x1f
	b[52] = p.RespTimeValue & 0x1f
	b[53] = p.LocalPhyErrors<<4 | p.OverrunErrors&0xf
	binary.BigEndian.PutUint16(b[54:], p.MaxCreditHint)
	binary.BigEndian.PutUint32(b[56:], p.LinkRoundTripLatency&0xffffff)
	binary.BigEndian.PutUint16(b[60:], p.CapabilityMask2)
	b[62] = uint8(p.ExtSpeedActive)<<4 | uint8(p.ExtSpeedSupported)&0xf
	b[63] = uint8(p.ExtSpeedEnabled) & 0x1f
}

func (p *PortInfo) putIdentity(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[0:], p.MKey)
	binary.BigEndian.PutUint64(b[8:], p.GIDPrefix)
	binary.BigEndian.PutUint16(b[16:], p.LID)
	binary.BigEndian.PutUint16(b[18:], p.MasterSMLID)
	binary.BigEndian.PutUint32(b[20:], uint32(p.CapabilityMask))
	binary.BigEndian.PutUint16(b[24:], p.DiagCode)
	binary.BigEndian.PutUint16(b[26:], p.MKeyLeasePeriod)
	b[28] = p.LocalPort
}

func (p *PortInfo) putLink(b *[DataLen]byte) {
	b[29], b[30], b[31] = uint8(p.WidthEnabled), uint8(p.WidthSupported), uint8(p.WidthActive)
	b[32] = uint8(p.SpeedSupported)<<4 | uint8(p.State)&0xf
	b[33] = uint8(p.Physical)<<4 | uint8(p.DownDefault)&0xf
	b[34] = p.MKeyProtect<<6 | p.LMC&7
	b[35] = uint8(p.SpeedActive)<<4 | uint8(p.SpeedEnabled)&0xf
}

func (p *PortInfo) putLanes(b *[DataLen]byte) {
	b[36] = uint8(p.NeighborMTU)<<4 | p.MasterSMSL&0xf
	b[37] = uint8(p.VLCap)<<4 | p.InitType&0xf
	b[38], b[39], b[40] = p.VLHighLimit, p.VLArbitrationHighCap, p.VLArbitrationLowCap
	b[41] = p.InitTypeReply<<4 | uint8(p.MTUCap)&0xf
	b[42] = p.VLStallCount<<5 | p.HOQLife&0x1f
	b[43] = uint8(p.OperationalVLs)<<4 | bit(p.EnforceInbound, 3) | bit(p.EnforceOutbound, 2) |
		bit(p.FilterRawInbound, 1) | bit(p.FilterRawOutbound, 0)
}
