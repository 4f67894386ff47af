// Package fabrics has what connects a host to a controller over the RDMA transport: the private data of
// connections, the connect command, and the controller's properties.
package fabrics

import (
	"encoding/binary"
	"fmt"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/format"
)

var le = binary.LittleEndian

// A Connect has the fields of the connect command (base 2.0, 6.3).
type Connect struct {
	Format     uint16 // 0
	Queue      uint16
	QueueSize  uint16 // entries of the submission queue, less one
	Attributes uint8  // bit 2: no flow control by the head pointer
	KeepAlive  uint32 // of the admin queue, milliseconds; 0: none
}

// ConnectNoFlowControl is the bit of Connect.Attributes by which a host disables flow control.
const ConnectNoFlowControl = 1 << 2

// ConnectOf returns the fields of a connect command.
func ConnectOf(c *capsule.Command) Connect {
	return Connect{uint16(c.CDW10), uint16(c.CDW10 >> 16), uint16(c.CDW11), uint8(c.CDW11 >> 16), c.CDW12}
}

// Command returns the connect command without its data pointer.
func (k Connect) Command() capsule.Command {
	return capsule.Command{
		Opcode: capsule.OpFabrics, Flags: capsule.FlagSGL, NSID: uint32(capsule.FabricsConnect),
		CDW10: uint32(k.Format) | uint32(k.Queue)<<16, CDW11: uint32(k.QueueSize) | uint32(k.Attributes)<<16, CDW12: k.KeepAlive,
	}
}

// ConnectAuthRequired is the bit of a connect command's result that asks for authentication. The
// controller's identifier is in the lower 16 bits.
const ConnectAuthRequired = 1 << 17

// Connect data has these lengths in bytes.
const (
	ConnectDataLen = 1024
	NQNLen         = 256 // the field of a qualified name
	MaxNQN         = 223 // its longest name
)

// AnyController is the controller identifier of a host that asks for a new controller.
const AnyController = 0xffff

// Offsets of fields of the connect data, which the result of a refused connect names.
const (
	ConnectOffsetController = 16
	ConnectOffsetSubsystem  = 256
	ConnectOffsetHost       = 512
)

// ConnectData is the data of the connect command.
type ConnectData struct {
	HostID     [16]byte
	Controller uint16
	Subsystem  string // qualified name
	Host       string // qualified name
}

// ParseConnectData parses the 1,024 bytes of connect data.
func ParseConnectData(b []byte) (ConnectData, error) {
	if err := format.Needs(b, ConnectDataLen, "connect data"); err != nil {
		return ConnectData{}, err
	}
	d := ConnectData{Controller: le.Uint16(b[16:]), Subsystem: format.Text(b[256:512]), Host: format.Text(b[512:768])}
	copy(d.HostID[:], b)
	for _, n := range []struct{ field, value string }{{"subsystem name length", d.Subsystem}, {"host name length", d.Host}} {
		if len(n.value) > MaxNQN {
			return d, format.Wrong("connect data", n.field, MaxNQN, uint64(len(n.value)))
		}
	}
	return d, nil
}

// Append appends the 1,024 bytes of connect data. Longer names are cut.
func (d *ConnectData) Append(b []byte) []byte {
	b, p := format.Grow(b, ConnectDataLen)
	copy(p, d.HostID[:])
	le.PutUint16(p[16:], d.Controller)
	copy(p[256:511], d.Subsystem)
	copy(p[512:767], d.Host)
	return b
}

// BadParameter returns the result of a refused connect: the offset of the bad field, in the data or in
// the command.
func BadParameter(inData bool, offset uint16) uint64 {
	if inData {
		return uint64(offset) | 1<<16
	}
	return uint64(offset)
}

// BadParameterName returns the name of the field that the result of a refused connect names.
func BadParameterName(result uint64) string {
	offset := uint16(result)
	if result>>16&1 != 0 {
		switch {
		case offset < ConnectOffsetController:
			return "the host's identifier"
		case offset < ConnectOffsetController+2:
			return "the controller's identifier"
		case offset >= ConnectOffsetSubsystem && offset < ConnectOffsetHost:
			return "the subsystem's qualified name"
		case offset >= ConnectOffsetHost && offset < ConnectOffsetHost+256:
			return "the host's qualified name"
		}
		return fmt.Sprintf("byte %d of the data", offset)
	}
	switch offset {
	case 40:
		return "the record format"
	case 42:
		return "the queue's number"
	case 44:
		return "the queue's size"
	case 48:
		return "the keep-alive timeout"
	}
	return fmt.Sprintf("byte %d of the command", offset)
}

// A Property is a register of a controller, by its offset.
type Property uint32

// The properties.
const (
	PropertyCAP  Property = 0x00 // capabilities, 8 bytes
	PropertyVS   Property = 0x08 // version
	PropertyCC   Property = 0x14 // configuration
	PropertyCSTS Property = 0x1c // status
	PropertyNSSR Property = 0x20 // subsystem reset
)

// A PropertyAccess has the fields of the commands that get and set properties.
type PropertyAccess struct {
	Property Property
	Wide     bool   // 8 bytes instead of 4
	Value    uint64 // to set
}

// PropertyOf returns the fields of a property command.
func PropertyOf(c *capsule.Command) PropertyAccess {
	return PropertyAccess{Property(c.CDW11), c.CDW10&7 == 1, uint64(c.CDW13)<<32 | uint64(c.CDW12)}
}

// Command returns a property command.
func (a PropertyAccess) Command(set bool) capsule.Command {
	c := capsule.Command{Opcode: capsule.OpFabrics, Flags: capsule.FlagSGL, NSID: uint32(capsule.FabricsPropertyGet), CDW11: uint32(a.Property)}
	if a.Wide {
		c.CDW10 = 1
	}
	if set {
		c.NSID, c.CDW12, c.CDW13 = uint32(capsule.FabricsPropertySet), uint32(a.Value), uint32(a.Value>>32)
	}
	return c
}

// Fields of the controller's capabilities.
const (
	CapContiguous = 1 << 16 // queues are contiguous; every controller over fabrics says so
	CapNVM        = 1 << 37 // the NVM command set
)

// Capabilities returns the property CAP: queues of at most size entries, and a controller that is ready
// within a number of half seconds.
func Capabilities(size, halfSeconds int) uint64 {
	return uint64(size-1)&0xffff | CapContiguous | uint64(halfSeconds&0xff)<<24 | CapNVM
}

// A Configuration is the property CC.
type Configuration uint32

// Enabled reports whether the host enables the controller.
func (c Configuration) Enabled() bool { return c&1 != 0 }

// Shutdown reports whether the host shuts the controller down.
func (c Configuration) Shutdown() bool { return c>>14&3 != 0 }

// CommandSet returns the selected command sets: 0 is NVM.
func (c Configuration) CommandSet() uint8 { return uint8(c >> 4 & 7) }

// PageSize returns the memory page size as a power of two, less 12.
func (c Configuration) PageSize() uint8 { return uint8(c >> 7 & 15) }

// Arbitration returns the arbitration mechanism: 0 is round robin.
func (c Configuration) Arbitration() uint8 { return uint8(c >> 11 & 7) }

// EntrySizes returns the sizes of entries of both queues as powers of two.
func (c Configuration) EntrySizes() (submission, completion uint8) {
	return uint8(c >> 16 & 15), uint8(c >> 20 & 15)
}

// EnabledConfiguration is what a host sets to enable a controller.
const EnabledConfiguration Configuration = 1 | 6<<16 | 4<<20

// ShutdownNormal is the bit of a Configuration with which a host asks for an orderly shutdown.
const ShutdownNormal Configuration = 1 << 14

// Bits of the property CSTS.
const (
	StatusReady            = 1 << 0
	StatusFatal            = 1 << 1
	StatusShutdownComplete = 2 << 2
)
