// Package identify has the structures that the command identify returns.
package identify

import (
	"encoding/binary"
	"math"

	"softrdma/storage/nvmeof/wire/format"
)

var le = binary.LittleEndian

// Len is the length of each structure that identify returns, in bytes.
const Len = 4096

// A CNS says which structure identify returns.
type CNS uint8

// The structures.
const (
	CNSNamespace            CNS = 0x00
	CNSController           CNS = 0x01
	CNSActiveNamespaces     CNS = 0x02
	CNSDescriptors          CNS = 0x03
	CNSCommandSetNamespace  CNS = 0x05
	CNSCommandSetController CNS = 0x06
	CNSCommandSetActive     CNS = 0x07
	CNSIndependent          CNS = 0x08
)

// A ControllerType says what a controller is for.
type ControllerType uint8

// The types.
const (
	ControllerIO        ControllerType = 1
	ControllerDiscovery ControllerType = 2
)

// Controller is the structure of CNS 01h (base 2.0, figure 275), as far as controllers over
// fabrics without power states use it.
type Controller struct {
	Serial, Model, Firmware string
	MultiPath               uint8 // CMIC: bit 0 several ports, bit 1 several controllers, bit 3 ANA
	MaxTransfer             uint8 // MDTS: power of two of 4 KiB pages; 0: no limit
	Controller              uint16
	Version                 uint32
	Events                  uint32 // OAES
	Attributes              uint32 // CTRATT
	Type                    ControllerType
	AbortLimit, EventLimit  uint8 // less one
	LogAttributes           uint8 // LPA
	ErrorEntries            uint8 // ELPE, less one
	KeepAliveGranularity    uint16
	ANATransition           uint8 // ANATT, seconds
	ANACapabilities         uint8
	ANAGroups               uint32 // ANAGRPMAX, NANAGRPID
	MaxCommands             uint16
	Namespaces, MaxActive   uint32 // NN, MNAN
	Commands                uint16 // ONCS: optional commands
	VolatileCache           uint8  // VWC
	SGLs                    uint32
	Subsystem               string
	CommandCapsule          uint32 // IOCCSZ, units of 16 bytes
	ResponseCapsule         uint32 // IORCSZ, units of 16 bytes
	CapsuleOffset           uint16 // ICDOFF, units of 16 bytes
	MaxDescriptors          uint8  // MSDBD
	FabricsCommands         uint16 // OFCS: bit 0 disconnect
}

// Bits of fields of Controller.
const (
	MultiPathPorts           = 1 << 0
	MultiPathControllers     = 1 << 1
	MultiPathANA             = 1 << 3
	AttributeHostID128       = 1 << 0
	AttributeTrafficKeeps    = 1 << 6 // traffic restarts the keep-alive timer
	CommandCompare           = 1 << 0
	CommandDatasetManagement = 1 << 2
	CommandWriteZeroes       = 1 << 3
	CommandReservations      = 1 << 5
	SGLSupported             = 1 << 0
	SGLKeyedSupported        = 1 << 2
	SGLOffsetSupported       = 1 << 20
	LogEffectsSupported      = 1 << 1
	LogExtendedSupported     = 1 << 2
)

// Append appends the 4,096 bytes of the structure.
func (c *Controller) Append(b []byte) []byte {
	b, p := format.Grow(b, Len)
	format.Pad(p[4:24], c.Serial)
	format.Pad(p[24:64], c.Model)
	format.Pad(p[64:72], c.Firmware)
	p[76], p[77] = c.MultiPath, c.MaxTransfer
	le.PutUint16(p[78:], c.Controller)
	le.PutUint32(p[80:], c.Version)
	le.PutUint32(p[92:], c.Events)
	le.PutUint32(p[96:], c.Attributes)
	p[111] = byte(c.Type)
	p[258], p[259], p[261], p[262] = c.AbortLimit, c.EventLimit, c.LogAttributes, c.ErrorEntries
	p[260] = 1<<1 | 1 // FRMW: one firmware slot, read only
	le.PutUint16(p[320:], c.KeepAliveGranularity)
	p[342], p[343] = c.ANATransition, c.ANACapabilities
	le.PutUint32(p[344:], c.ANAGroups)
	le.PutUint32(p[348:], c.ANAGroups)
	p[512], p[513] = 6<<4|6, 4<<4|4 // SQES, CQES: entries of 64 and 16 bytes
	le.PutUint16(p[514:], c.MaxCommands)
	le.PutUint32(p[516:], c.Namespaces)
	le.PutUint16(p[520:], c.Commands)
	p[525] = c.VolatileCache
	le.PutUint32(p[536:], c.SGLs)
	le.PutUint32(p[540:], c.MaxActive)
	copy(p[768:1023], c.Subsystem)
	le.PutUint32(p[1792:], c.CommandCapsule)
	le.PutUint32(p[1796:], c.ResponseCapsule)
	le.PutUint16(p[1800:], c.CapsuleOffset)
	p[1803] = c.MaxDescriptors
	le.PutUint16(p[1804:], c.FabricsCommands)
	return b
}

// ParseController parses the structure of CNS 01h.
func ParseController(b []byte) (Controller, error) {
	if err := format.Needs(b, Len, "identify controller"); err != nil {
		return Controller{}, err
	}
	return Controller{
		Serial: format.Padded(b[4:24]), Model: format.Padded(b[24:64]), Firmware: format.Padded(b[64:72]),
		MultiPath: b[76], MaxTransfer: b[77], Controller: le.Uint16(b[78:]), Version: le.Uint32(b[80:]),
		Events: le.Uint32(b[92:]), Attributes: le.Uint32(b[96:]), Type: ControllerType(b[111]),
		AbortLimit: b[258], EventLimit: b[259], LogAttributes: b[261], ErrorEntries: b[262],
		KeepAliveGranularity: le.Uint16(b[320:]), ANATransition: b[342], ANACapabilities: b[343],
		ANAGroups:   le.Uint32(b[348:]),
		MaxCommands: le.Uint16(b[514:]), Namespaces: le.Uint32(b[516:]), Commands: le.Uint16(b[520:]), VolatileCache: b[525],
		SGLs: le.Uint32(b[536:]), MaxActive: le.Uint32(b[540:]), Subsystem: format.Text(b[768:1024]),
		CommandCapsule: le.Uint32(b[1792:]), ResponseCapsule: le.Uint32(b[1796:]), CapsuleOffset: le.Uint16(b[1800:]),
		MaxDescriptors: b[1803], FabricsCommands: le.Uint16(b[1804:]),
	}, nil
}

// Namespace is the structure of CNS 00h with one format of blocks, without metadata.
type Namespace struct {
	Blocks     uint64
	Capacity   uint64 // blocks that can be allocated
	Used       uint64 // blocks
	Features   uint8  // NSFEAT
	Sharing    uint8  // NMIC: bit 0 other controllers can have it
	Reserves   uint8  // RESCAP: types of reservations, by bits
	Deallocate uint8  // DLFEAT: what deallocated blocks read as
	ANAGroup   uint32
	Attributes uint8 // NSATTR: bit 0 write protected
	NGUID      [16]byte
	EUI64      [8]byte
	BlockShift uint8 // blocks have 2^BlockShift bytes
}

// DeallocatedZeroes, in Namespace.Deallocate, says that deallocated blocks read as zeros, and
// that write zeroes may deallocate.
const DeallocatedZeroes = 1<<3 | 1

// Append appends the 4,096 bytes of the structure.
func (n *Namespace) Append(b []byte) []byte {
	b, p := format.Grow(b, Len)
	le.PutUint64(p, n.Blocks)
	le.PutUint64(p[8:], n.Capacity)
	le.PutUint64(p[16:], n.Used)
	p[24], p[30], p[31], p[33] = n.Features, n.Sharing, n.Reserves, n.Deallocate
	le.PutUint32(p[92:], n.ANAGroup)
	p[99] = n.Attributes
	copy(p[104:], n.NGUID[:])
	copy(p[120:], n.EUI64[:])
	p[130] = n.BlockShift
	return b
}

// ParseNamespace parses the structure of CNS 00h. Of the formats it reads the one in use.
func ParseNamespace(b []byte) (Namespace, error) {
	if err := format.Needs(b, Len, "identify namespace"); err != nil {
		return Namespace{}, err
	}
	n := Namespace{
		Blocks: le.Uint64(b), Capacity: le.Uint64(b[8:]), Used: le.Uint64(b[16:]),
		Features: b[24], Sharing: b[30], Reserves: b[31], Deallocate: b[33], ANAGroup: le.Uint32(b[92:]), Attributes: b[99],
		NGUID: [16]byte(b[104:120]), EUI64: [8]byte(b[120:128]),
	}
	inUse := b[26]&0xf | b[26]>>1&0x30
	n.BlockShift = b[128+4*int(inUse)+2]
	if n.Blocks > 0 && (n.BlockShift < 9 || n.BlockShift > 31) {
		return n, format.Wrong("identify namespace", "block size as a power of two", 9, uint64(n.BlockShift))
	}
	if most := uint64(math.MaxInt64) >> n.BlockShift; n.Blocks > most {
		return n, format.Wrong("identify namespace", "blocks", most, n.Blocks)
	}
	return n, nil
}

// AppendIndependent appends the structure of CNS 08h, which does not depend on the command set.
func (n *Namespace) AppendIndependent(b []byte) []byte {
	b, p := format.Grow(b, Len)
	p[0], p[1], p[2] = n.Features, n.Sharing, n.Reserves
	le.PutUint32(p[4:], n.ANAGroup)
	p[8], p[14] = n.Attributes, 1 // NSTAT: ready
	return b
}

// AppendNamespaces appends the list of CNS 02h: at most 1,024 identifiers above one, in order.
func AppendNamespaces(b []byte, ids []uint32, above uint32) []byte {
	b, p := format.Grow(b, Len)
	for _, id := range ids {
		if id > above && len(p) > 0 {
			le.PutUint32(p, id)
			p = p[4:]
		}
	}
	return b
}

// ParseNamespaces returns the identifiers of a list of namespaces.
func ParseNamespaces(b []byte) (ids []uint32) {
	for ; len(b) >= 4; b = b[4:] {
		id := le.Uint32(b)
		if id == 0 {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// Descriptors are the identifiers of a namespace in the list of CNS 03h.
type Descriptors struct {
	EUI64      [8]byte
	NGUID      [16]byte
	UUID       [16]byte
	CommandSet uint8
}

// Types and lengths of descriptors.
const (
	descriptorEUI64 = 1
	descriptorNGUID = 2
	descriptorUUID  = 3
	descriptorCSI   = 4
)

// Append appends the list, 4,096 bytes. Identifiers that are zero are left out.
func (d *Descriptors) Append(b []byte) []byte {
	b, p := format.Grow(b, Len)
	put := func(kind byte, id []byte) {
		p[0], p[1] = kind, byte(len(id))
		copy(p[4:], id)
		p = p[4+len(id):]
	}
	if d.EUI64 != [8]byte{} {
		put(descriptorEUI64, d.EUI64[:])
	}
	if d.NGUID != [16]byte{} {
		put(descriptorNGUID, d.NGUID[:])
	}
	if d.UUID != [16]byte{} {
		put(descriptorUUID, d.UUID[:])
	}
	put(descriptorCSI, []byte{d.CommandSet})
	return b
}

// ParseDescriptors parses a list of descriptors. It skips those that it does not know.
func ParseDescriptors(b []byte) (d Descriptors, err error) {
	for len(b) >= 4 && b[1] != 0 {
		kind, n := b[0], int(b[1])
		if err := format.Needs(b, 4+n, "namespace descriptor"); err != nil {
			return d, err
		}
		id := b[4 : 4+n]
		switch {
		case kind == descriptorEUI64 && n == 8:
			copy(d.EUI64[:], id)
		case kind == descriptorNGUID && n == 16:
			copy(d.NGUID[:], id)
		case kind == descriptorUUID && n == 16:
			copy(d.UUID[:], id)
		case kind == descriptorCSI && n == 1:
			d.CommandSet = id[0]
		}
		b = b[4+n:]
	}
	return d, nil
}
