package wire

import "fmt"

// An Opcode is that of a command. Admin and I/O queues have their own.
type Opcode uint8

// Opcodes of admin commands.
const (
	AdminGetLogPage  Opcode = 0x02
	AdminIdentify    Opcode = 0x06
	AdminAbort       Opcode = 0x08
	AdminSetFeatures Opcode = 0x09
	AdminGetFeatures Opcode = 0x0a
	AdminAsyncEvent  Opcode = 0x0c
	AdminKeepAlive   Opcode = 0x18
	OpFabrics        Opcode = 0x7f // on any queue
)

// Opcodes of the NVM command set.
const (
	Flush             Opcode = 0x00
	Write             Opcode = 0x01
	Read              Opcode = 0x02
	Compare           Opcode = 0x05
	WriteZeroes       Opcode = 0x08
	DatasetManagement Opcode = 0x09
)

var adminNames = map[Opcode]string{
	AdminGetLogPage: "Get Log Page", AdminIdentify: "Identify", AdminAbort: "Abort", AdminSetFeatures: "Set Features",
	AdminGetFeatures: "Get Features", AdminAsyncEvent: "Asynchronous Event Request", AdminKeepAlive: "Keep Alive", OpFabrics: "Fabrics",
}

var nvmNames = map[Opcode]string{
	Flush: "Flush", Write: "Write", Read: "Read", Compare: "Compare", WriteZeroes: "Write Zeroes",
	DatasetManagement: "Dataset Management", OpFabrics: "Fabrics",
}

// Name returns the opcode's name on an admin queue or on an I/O queue.
func (o Opcode) Name(admin bool) string {
	names := nvmNames
	if admin {
		names = adminNames
	}
	if n, ok := names[o]; ok {
		return n
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}

// Fabrics is the type of a fabrics command.
type Fabrics uint8

// The types.
const (
	FabricsPropertySet Fabrics = 0x00
	FabricsConnect     Fabrics = 0x01
	FabricsPropertyGet Fabrics = 0x04
	FabricsAuthSend    Fabrics = 0x05
	FabricsAuthReceive Fabrics = 0x06
	FabricsDisconnect  Fabrics = 0x08
)

// String names the type.
func (f Fabrics) String() string {
	switch f {
	case FabricsPropertySet:
		return "Property Set"
	case FabricsConnect:
		return "Connect"
	case FabricsPropertyGet:
		return "Property Get"
	case FabricsAuthSend:
		return "Authentication Send"
	case FabricsAuthReceive:
		return "Authentication Receive"
	case FabricsDisconnect:
		return "Disconnect"
	}
	return fmt.Sprintf("Fabrics(%#02x)", uint8(f))
}

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

// A Feature is what the features commands get and set.
type Feature uint8

// The features.
const (
	FeatureVolatileCache Feature = 0x06
	FeatureQueues        Feature = 0x07
	FeatureAsyncEvents   Feature = 0x0b
	FeatureKeepAlive     Feature = 0x0f
	FeatureHostID        Feature = 0x81
	FeatureWriteProtect  Feature = 0x84
)

// A LogPage is what the command get log page returns.
type LogPage uint8

// The log pages.
const (
	LogError             LogPage = 0x01
	LogHealth            LogPage = 0x02
	LogFirmware          LogPage = 0x03
	LogChangedNamespaces LogPage = 0x04
	LogEffects           LogPage = 0x05
	LogANA               LogPage = 0x0c
	LogDiscovery         LogPage = 0x70
)

// Log returns the fields of get log page: the page, its specific field, the part in bytes, and whether
// the page keeps its asynchronous event.
func (c *Command) Log() (page LogPage, specific uint8, offset uint64, length uint64, retain bool) {
	dwords := uint64(c.CDW10>>16) | uint64(c.CDW11&0xffff)<<16
	return LogPage(c.CDW10), uint8(c.CDW10 >> 8 & 0xf), uint64(c.CDW13)<<32 | uint64(c.CDW12), (dwords + 1) * 4, c.CDW10>>15&1 != 0
}

// LogCommand returns the command that gets a part of a log page.
func LogCommand(page LogPage, offset uint64, length uint32) Command {
	dwords := length/4 - 1
	return Command{
		Opcode: AdminGetLogPage, Flags: FlagSGL, NSID: AllNamespaces,
		CDW10: uint32(page) | dwords<<16, CDW11: dwords >> 16, CDW12: uint32(offset), CDW13: uint32(offset >> 32),
	}
}

// AllNamespaces is the namespace identifier that stands for all.
const AllNamespaces = 0xffffffff

// Results of asynchronous events: the type in bits 2:0, the information in bits 15:8, the log page in
// bits 23:16.
const (
	EventNamespaceChanged = 2 | 0x00<<8 | uint32(LogChangedNamespaces)<<16
	EventANAChanged       = 2 | 0x03<<8 | uint32(LogANA)<<16
	EventDiscoveryChanged = 2 | 0xf0<<8 | uint32(LogDiscovery)<<16
)

// Bits of the feature with which a host asks for events.
const (
	AskNamespaceChanged = 1 << 8
	AskFirmware         = 1 << 9
	AskANAChanged       = 1 << 11
	AskDiscoveryChanged = 1 << 31
)
