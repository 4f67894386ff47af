// Package logpage has the log pages of controllers, the discovery log included, and the asynchronous
// events that tell a host to read one.
package logpage

import (
	"encoding/binary"
	"slices"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/format"
	"softrdma/storage/nvmeof/wire/status"
)

var le = binary.LittleEndian

// A Page is what the command get log page returns.
type Page uint8

// The log pages.
const (
	Error             Page = 0x01
	Health            Page = 0x02
	Firmware          Page = 0x03
	ChangedNamespaces Page = 0x04
	Effects           Page = 0x05
	ANA               Page = 0x0c
	Discovery         Page = 0x70
	Reservations      Page = 0x80
)

// Fields returns the fields of get log page: the page, its specific field, the part in bytes, and whether
// the page keeps its asynchronous event.
func Fields(c *capsule.Command) (page Page, specific uint8, offset uint64, length uint64, retain bool) {
	dwords := uint64(c.CDW10>>16) | uint64(c.CDW11&0xffff)<<16
	return Page(c.CDW10), uint8(c.CDW10 >> 8 & 0xf), uint64(c.CDW13)<<32 | uint64(c.CDW12), (dwords + 1) * 4, c.CDW10>>15&1 != 0
}

// Command returns the command that gets a part of a log page.
func Command(page Page, offset uint64, length uint32) capsule.Command {
	dwords := length/4 - 1
	return capsule.Command{
		Opcode: capsule.AdminGetLogPage, Flags: capsule.FlagSGL, NSID: capsule.AllNamespaces,
		CDW10: uint32(page) | dwords<<16, CDW11: dwords >> 16, CDW12: uint32(offset), CDW13: uint32(offset >> 32),
	}
}

// Results of asynchronous events: the type in bits 2:0, the information in bits 15:8, the log page in
// bits 23:16.
const (
	EventNamespaceChanged = 2 | 0x00<<8 | uint32(ChangedNamespaces)<<16
	EventANAChanged       = 2 | 0x03<<8 | uint32(ANA)<<16
	EventDiscoveryChanged = 2 | 0xf0<<8 | uint32(Discovery)<<16
	EventReservation      = 6 | 0x00<<8 | uint32(Reservations)<<16
)

// Bits of the feature with which a host asks for events.
const (
	AskNamespaceChanged = 1 << 8
	AskFirmware         = 1 << 9
	AskANAChanged       = 1 << 11
	AskDiscoveryChanged = 1 << 31
)

// Lengths of log pages, and of their entries, in bytes.
const (
	HealthLen     = 512
	FirmwareLen   = 512
	EffectsLen    = 4096
	ErrorEntryLen = 64

	ReservationEntryLen = 64
	DiscoveryHeadLen    = 1024
	DiscoveryEntryLen   = 1024
)

// AppendHealth appends the log page of a healthy controller (02h): spare blocks and a temperature, and
// how many 512,000 bytes and commands it has read and written.
func AppendHealth(b []byte, bytesRead, bytesWritten, reads, writes uint64) []byte {
	b, p := format.Grow(b, HealthLen)
	le.PutUint16(p[1:], 300) // kelvin
	p[3], p[4] = 100, 5      // available spare and its threshold, percent
	const unit = 512000
	le.PutUint64(p[32:], (bytesRead+unit-1)/unit)
	le.PutUint64(p[48:], (bytesWritten+unit-1)/unit)
	le.PutUint64(p[64:], reads)
	le.PutUint64(p[80:], writes)
	return b
}

// AppendFirmware appends the log page of firmware slots (03h) with one slot.
func AppendFirmware(b []byte, revision string) []byte {
	b, p := format.Grow(b, FirmwareLen)
	p[0] = 1
	format.Pad(p[8:16], revision)
	return b
}

// AppendEffects appends the log page of supported commands and their effects (05h). Writers are those
// I/O commands that change the content of blocks.
func AppendEffects(b []byte, admin, io, writers []capsule.Opcode) []byte {
	const supported, changesBlocks = 1, 1 << 1
	b, p := format.Grow(b, EffectsLen)
	for _, o := range admin {
		le.PutUint32(p[4*int(o):], supported)
	}
	for _, o := range io {
		effects := uint32(supported)
		if slices.Contains(writers, o) {
			effects |= changesBlocks
		}
		le.PutUint32(p[1024+4*int(o):], effects)
	}
	return b
}

// A ReservationNotice is what has happened to a host's reservation or registration.
type ReservationNotice uint8

// The notices.
const (
	RegistrationPreempted ReservationNotice = 1 + iota
	ReservationReleased
	ReservationPreempted
)

// ReservationNotices has the bits of all notices.
const ReservationNotices = 1<<RegistrationPreempted | 1<<ReservationReleased | 1<<ReservationPreempted

// A ReservationEntry is the log page of reservations (80h).
type ReservationEntry struct {
	Count uint64 // number of the notice, from 1; 0: there is none
	Kind  ReservationNotice
	More  uint8 // notices that follow
	NSID  uint32
}

// Append appends the 64 bytes of the log page.
func (e *ReservationEntry) Append(b []byte) []byte {
	b, p := format.Grow(b, ReservationEntryLen)
	le.PutUint64(p, e.Count)
	p[8], p[9] = uint8(e.Kind), e.More
	le.PutUint32(p[12:], e.NSID)
	return b
}

// ParseReservationEntry parses the log page.
func ParseReservationEntry(b []byte) (ReservationEntry, error) {
	if err := format.Needs(b, ReservationEntryLen, "log page of reservations"); err != nil {
		return ReservationEntry{}, err
	}
	return ReservationEntry{le.Uint64(b), ReservationNotice(b[8]), b[9], le.Uint32(b[12:])}, nil
}

// An ErrorEntry is an entry of the error log page (01h).
type ErrorEntry struct {
	Count    uint64 // number of the error, from 1
	Queue    uint16
	Command  uint16
	Status   status.Status
	Location uint16 // offset of the bad field in the command; 0xffff: none
	LBA      uint64
	NSID     uint32
}

// Append appends the 64 bytes of the entry.
func (e *ErrorEntry) Append(b []byte) []byte {
	b, p := format.Grow(b, ErrorEntryLen)
	le.PutUint64(p, e.Count)
	le.PutUint16(p[8:], e.Queue)
	le.PutUint16(p[10:], e.Command)
	le.PutUint16(p[12:], uint16(e.Status)<<1)
	le.PutUint16(p[14:], e.Location)
	le.PutUint64(p[16:], e.LBA)
	le.PutUint32(p[24:], e.NSID)
	return b
}

// ParseErrorEntry parses the entry at the start of b.
func ParseErrorEntry(b []byte) (ErrorEntry, error) {
	if err := format.Needs(b, ErrorEntryLen, "error log entry"); err != nil {
		return ErrorEntry{}, err
	}
	return ErrorEntry{
		le.Uint64(b), le.Uint16(b[8:]), le.Uint16(b[10:]), status.Status(le.Uint16(b[12:]) >> 1),
		le.Uint16(b[14:]), le.Uint64(b[16:]), le.Uint32(b[24:]),
	}, nil
}

// An ANAState is the state of a group of namespaces at a controller.
type ANAState uint8

// The states.
const (
	ANAOptimized      ANAState = 1
	ANANonOptimized   ANAState = 2
	ANAStateNoAccess  ANAState = 3
	ANALost           ANAState = 4
	ANAStateChanging  ANAState = 15
	anaHeadLen                 = 16
	anaDescriptionLen          = 32
)

// ANAGroupsOnly is the bit of a command that gets the log page of asymmetric namespace access without the
// identifiers of namespaces.
const ANAGroupsOnly = 1 << 8 // of CDW10

// An ANAGroup is a group of namespaces with one state.
type ANAGroup struct {
	ID         uint32
	Changes    uint64
	State      ANAState
	Namespaces []uint32
}

// AppendANA appends the log page of asymmetric namespace access (0Ch). With groupsOnly it leaves the
// namespaces out.
func AppendANA(b []byte, changes uint64, groups []ANAGroup, groupsOnly bool) []byte {
	b, p := format.Grow(b, anaHeadLen)
	le.PutUint64(p, changes)
	le.PutUint16(p[8:], uint16(len(groups)))
	for _, g := range groups {
		if groupsOnly {
			g.Namespaces = nil
		}
		b, p = format.Grow(b, anaDescriptionLen+4*len(g.Namespaces))
		le.PutUint32(p, g.ID)
		le.PutUint32(p[4:], uint32(len(g.Namespaces)))
		le.PutUint64(p[8:], g.Changes)
		p[16] = byte(g.State)
		for i, id := range g.Namespaces {
			le.PutUint32(p[anaDescriptionLen+4*i:], id)
		}
	}
	return b
}

// MaxANALen returns the length of the log page with so many groups and namespaces.
func MaxANALen(groups, namespaces int) int {
	return anaHeadLen + groups*anaDescriptionLen + namespaces*4
}

// ParseANA parses the log page of asymmetric namespace access.
func ParseANA(b []byte) (changes uint64, groups []ANAGroup, err error) {
	if err := format.Needs(b, anaHeadLen, "ANA log page"); err != nil {
		return 0, nil, err
	}
	changes, n := le.Uint64(b), int(le.Uint16(b[8:]))
	b = b[anaHeadLen:]
	for range n {
		if err := format.Needs(b, anaDescriptionLen, "ANA group"); err != nil {
			return changes, groups, err
		}
		g := ANAGroup{ID: le.Uint32(b), Changes: le.Uint64(b[8:]), State: ANAState(b[16])}
		count := le.Uint32(b[4:])
		b = b[anaDescriptionLen:]
		if uint64(len(b)) < 4*uint64(count) {
			return changes, groups, &format.Error{Structure: "ANA group", Want: 4 * uint64(count), Have: uint64(len(b))}
		}
		for range count {
			g.Namespaces = append(g.Namespaces, le.Uint32(b))
			b = b[4:]
		}
		groups = append(groups, g)
	}
	return changes, groups, nil
}

// A SubsystemType says what an entry of the discovery log leads to.
type SubsystemType uint8

// The types.
const (
	SubsystemReferral SubsystemType = 1 // another discovery service
	SubsystemNVM      SubsystemType = 2
	SubsystemCurrent  SubsystemType = 3 // this discovery service
)

// String returns the name that nvme-cli prints.
func (t SubsystemType) String() string {
	switch t {
	case SubsystemReferral:
		return "discovery subsystem referral"
	case SubsystemNVM:
		return "nvme subsystem"
	case SubsystemCurrent:
		return "current discovery subsystem"
	}
	return "unrecognized"
}

// Codes of transports, address families and providers in entries of the discovery log.
const (
	TransportRDMA       = 1
	FamilyIPv4          = 1
	FamilyIPv6          = 2
	ServiceConnected    = 1
	ProviderAny         = 1
	ProviderInfiniBand  = 2
	ProviderRoCE        = 3
	ProviderRoCEv2      = 4
	ProviderIWARP       = 5
	ManagementRDMA      = 1
	NoFlowControlNeeded = 1 << 2 // of DiscoveryEntry.Requirements: flow control can be disabled
)

// DiscoveryNQN is the qualified name of the discovery service.
const DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// A DiscoveryEntry says where a subsystem is (discovery log page, 70h).
type DiscoveryEntry struct {
	Transport    uint8
	Family       uint8
	Type         SubsystemType
	Requirements uint8
	PortID       uint16
	Controller   uint16 // AnyController
	AdminQueue   uint16 // entries of the admin queue at most
	Flags        uint16
	Service      string // port number
	Subsystem    string
	Address      string
	RDMAService  uint8 // connected
	Provider     uint8
	Management   uint8
	PKey         uint16
}

// Append appends the 1,024 bytes of the entry.
func (e *DiscoveryEntry) Append(b []byte) []byte {
	b, p := format.Grow(b, DiscoveryEntryLen)
	p[0], p[1], p[2], p[3] = e.Transport, e.Family, byte(e.Type), e.Requirements
	le.PutUint16(p[4:], e.PortID)
	le.PutUint16(p[6:], e.Controller)
	le.PutUint16(p[8:], e.AdminQueue)
	le.PutUint16(p[10:], e.Flags)
	format.Pad(p[32:64], e.Service)
	copy(p[256:511], e.Subsystem)
	format.Pad(p[512:768], e.Address)
	p[768], p[769], p[770] = e.RDMAService, e.Provider, e.Management
	le.PutUint16(p[776:], e.PKey)
	return b
}

// ParseDiscoveryEntry parses the entry at the start of b.
func ParseDiscoveryEntry(b []byte) (DiscoveryEntry, error) {
	if err := format.Needs(b, DiscoveryEntryLen, "discovery log entry"); err != nil {
		return DiscoveryEntry{}, err
	}
	return DiscoveryEntry{
		Transport: b[0], Family: b[1], Type: SubsystemType(b[2]), Requirements: b[3],
		PortID: le.Uint16(b[4:]), Controller: le.Uint16(b[6:]), AdminQueue: le.Uint16(b[8:]), Flags: le.Uint16(b[10:]),
		Service: format.Padded(b[32:64]), Subsystem: format.Text(b[256:512]), Address: format.Padded(b[512:768]),
		RDMAService: b[768], Provider: b[769], Management: b[770], PKey: le.Uint16(b[776:]),
	}, nil
}

// A DiscoveryHead is the start of the discovery log page.
type DiscoveryHead struct {
	Generation uint64 // changes with each change of the log
	Entries    uint64
}

// Append appends the 1,024 bytes of the start.
func (h DiscoveryHead) Append(b []byte) []byte {
	b, p := format.Grow(b, DiscoveryHeadLen)
	le.PutUint64(p, h.Generation)
	le.PutUint64(p[8:], h.Entries)
	return b
}

// ParseDiscoveryHead parses the start of the discovery log page.
func ParseDiscoveryHead(b []byte) (DiscoveryHead, error) {
	if err := format.Needs(b, 18, "discovery log page"); err != nil {
		return DiscoveryHead{}, err
	}
	h := DiscoveryHead{le.Uint64(b), le.Uint64(b[8:])}
	if f := le.Uint16(b[16:]); f != 0 {
		return h, format.Wrong("discovery log page", "record format", 0, uint64(f))
	}
	return h, nil
}
