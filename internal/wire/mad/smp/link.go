package smp

import "fmt"

// A PortState is the logical state of a port. As the value of a Set
// it is a command, of which 0 changes nothing.
type PortState uint8

// The logical states.
const (
	PortNoChange PortState = 0
	PortDown     PortState = 1
	PortInit     PortState = 2
	PortArmed    PortState = 3
	PortActive   PortState = 4
)

// String returns the name of the state.
func (s PortState) String() string {
	switch s {
	case PortNoChange:
		return "no change"
	case PortDown:
		return "down"
	case PortInit:
		return "init"
	case PortArmed:
		return "armed"
	case PortActive:
		return "active"
	}
	return fmt.Sprintf("state %d (reserved)", uint8(s))
}

// A PhysicalState is the state of a port's link training (IBTA 14.2.5.6). As
// the value of a Set it is a command, of which 0 changes nothing.
type PhysicalState uint8

// The physical states.
const (
	PhysicalNoChange PhysicalState = 0
	PhysicalSleep    PhysicalState = 1
	PhysicalPolling  PhysicalState = 2
	PhysicalDisabled PhysicalState = 3
	PhysicalTraining PhysicalState = 4
	PhysicalLinkUp   PhysicalState = 5
	PhysicalRecovery PhysicalState = 6
	PhysicalTest     PhysicalState = 7
)

// String returns the name of the state.
func (s PhysicalState) String() string {
	names := [...]string{"no change", "sleep", "polling", "disabled", "training", "link up", "link error recovery", "phy test"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("physical state %d (reserved)", uint8(s))
}

// A Width is a set of link widths, of which an active link has one.
type Width uint8

// The widths. WidthAsSupported in a Set means all that the port supports.
const (
	Width1x          Width = 1
	Width4x          Width = 2
	Width8x          Width = 4
	Width12x         Width = 8
	Width2x          Width = 16
	WidthAsSupported Width = 255
)

// Lanes returns the number of lanes of the widest width of the set.
func (w Width) Lanes() int {
	switch {
	case w&Width12x != 0:
		return 12
	case w&Width8x != 0:
		return 8
	case w&Width4x != 0:
		return 4
	case w&Width2x != 0:
		return 2
	case w&Width1x != 0:
		return 1
	}
	return 0
}

// A Speed is a set of lane speeds of the first field for them, of which an
// active link has one.
type Speed uint8

// The speeds. SpeedAsSupported in a Set means all that the port supports.
const (
	SpeedSDR         Speed = 1 // 2.5 Gb/s
	SpeedDDR         Speed = 2 // 5 Gb/s
	SpeedQDR         Speed = 4 // 10 Gb/s
	SpeedAsSupported Speed = 15
)

// An ExtSpeed is a set of lane speeds of the second field for them, of which an
// active link has one or, if it is slower, none.
type ExtSpeed uint8

// The extended speeds. ExtSpeedNone disables them in a Set, ExtSpeedAsSupported
// means all that the port supports.
const (
	ExtSpeedFDR         ExtSpeed = 1 // 14.0625 Gb/s
	ExtSpeedEDR         ExtSpeed = 2 // 25.78125 Gb/s
	ExtSpeedHDR         ExtSpeed = 4 // 53.125 Gb/s
	ExtSpeedNDR         ExtSpeed = 8 // 106.25 Gb/s
	ExtSpeedNone        ExtSpeed = 30
	ExtSpeedAsSupported ExtSpeed = 31
)

// LaneRate returns the bits a second of one lane, of the fastest speed of the
// sets.
func LaneRate(s Speed, e ExtSpeed) uint64 {
	switch {
	case e&ExtSpeedNDR != 0:
		return 106_250_000_000
	case e&ExtSpeedHDR != 0:
		return 53_125_000_000
	case e&ExtSpeedEDR != 0:
		return 25_781_250_000
	case e&ExtSpeedFDR != 0:
		return 14_062_500_000
	case s&SpeedQDR != 0:
		return 10_000_000_000
	case s&SpeedDDR != 0:
		return 5_000_000_000
	case s&SpeedSDR != 0:
		return 2_500_000_000
	}
	return 0
}

// VLs is the code of a number of data lanes (IBTA 14.2.5.6).
type VLs uint8

// The numbers of lanes.
const (
	VL0         VLs = 1
	VL0to1      VLs = 2
	VL0to3      VLs = 3
	VL0to7      VLs = 4
	VL0to14     VLs = 5
	VLsNoChange VLs = 0 // no change in a Set
)

// Count returns the number of data lanes, or 0 for a reserved code.
func (v VLs) Count() int {
	counts := [...]int{0, 1, 2, 4, 8, 15}
	if int(v) < len(counts) {
		return counts[v]
	}
	return 0
}

// A Capability is a set of bits of PortInfo's CapabilityMask (IBTA 14.2.5.6).
type Capability uint32

// The capabilities.
const (
	CapSM                       Capability = 1 << 1
	CapNotice                   Capability = 1 << 2
	CapTrap                     Capability = 1 << 3
	CapOptionalIPD              Capability = 1 << 4
	CapAutomaticMigration       Capability = 1 << 5
	CapSLMapping                Capability = 1 << 6
	CapMKeyNVRAM                Capability = 1 << 7
	CapPKeyNVRAM                Capability = 1 << 8
	CapLedInfo                  Capability = 1 << 9
	CapSMDisabled               Capability = 1 << 10
	CapSystemImageGUID          Capability = 1 << 11
	CapPKeyExternalPortTrap     Capability = 1 << 12
	CapExtendedSpeeds           Capability = 1 << 14
	CapCapabilityMask2          Capability = 1 << 15
	CapCommunicationManagement  Capability = 1 << 16
	CapSNMP                     Capability = 1 << 17
	CapReinit                   Capability = 1 << 18
	CapDeviceManagement         Capability = 1 << 19
	CapVendorClass              Capability = 1 << 20
	CapDirectedRouteNotice      Capability = 1 << 21
	CapMaskNotice               Capability = 1 << 22
	CapBootManagement           Capability = 1 << 23
	CapRoundTripLatency         Capability = 1 << 24
	CapClientReregistration     Capability = 1 << 25
	CapOtherLocalChangesNotice  Capability = 1 << 26
	CapMcastPKeyTrapSuppression Capability = 1 << 29
	CapMulticastFDBTop          Capability = 1 << 30
)

// Cap2PortInfoExtended in PortInfo's CapabilityMask2 says that there is PortInfoExtended.
const Cap2PortInfoExtended = 1 << 1
