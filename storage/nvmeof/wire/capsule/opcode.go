package capsule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

	ReservationRegister Opcode = 0x0d
	ReservationReport   Opcode = 0x0e
	ReservationAcquire  Opcode = 0x11
	ReservationRelease  Opcode = 0x15
)

var adminNames = map[Opcode]string{
	AdminGetLogPage: "Get Log Page", AdminIdentify: "Identify", AdminAbort: "Abort", AdminSetFeatures: "Set Features",
	AdminGetFeatures: "Get Features", AdminAsyncEvent: "Asynchronous Event Request", AdminKeepAlive: "Keep Alive", OpFabrics: "Fabrics",
}

var nvmNames = map[Opcode]string{
	Flush: "Flush", Write: "Write", Read: "Read", Compare: "Compare", WriteZeroes: "Write Zeroes",
	DatasetManagement: "Dataset Management", OpFabrics: "Fabrics",
	ReservationRegister: "Reservation Register", ReservationReport: "Reservation Report",
	ReservationAcquire: "Reservation Acquire", ReservationRelease: "Reservation Release",
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

var fabricsNames = map[Fabrics]string{
	FabricsPropertySet: "Property Set", FabricsConnect: "Connect", FabricsPropertyGet: "Property Get",
	FabricsAuthSend: "Authentication Send", FabricsAuthReceive: "Authentication Receive", FabricsDisconnect: "Disconnect",
}

// String names the type.
func (f Fabrics) String() string {
	if n, ok := fabricsNames[f]; ok {
		return n
	}
	return fmt.Sprintf("Fabrics(%#02x)", uint8(f))
}

// Authenticates reports whether commands of the type authenticate.
func (f Fabrics) Authenticates() bool { return f == FabricsAuthSend || f == FabricsAuthReceive }

// Name returns the name of a command on an admin queue or on an I/O queue, in lower case.
func (c *Command) Name(admin bool) string {
	if c.Opcode == OpFabrics {
		return strings.ToLower(c.Fabrics().String())
	}
	return strings.ToLower(c.Opcode.Name(admin))
}

// Names returns the names of all commands, in their order.
func Names() (names []string) {
	for _, m := range []map[Opcode]string{adminNames, nvmNames} {
		for o, n := range m {
			if o != OpFabrics {
				names = append(names, strings.ToLower(n))
			}
		}
	}
	for n := range maps.Values(fabricsNames) {
		names = append(names, strings.ToLower(n))
	}
	slices.Sort(names)
	return names
}

// A Feature is what the features commands get and set.
type Feature uint8

// The features.
const (
	FeatureVolatileCache Feature = 0x06
	FeatureQueues        Feature = 0x07
	FeatureAsyncEvents   Feature = 0x0b
	FeatureKeepAlive     Feature = 0x0f
	FeatureHostID        Feature = 0x81
	FeatureReservations  Feature = 0x82 // notices of them that the host does not want
	FeatureWriteProtect  Feature = 0x84
)

// AllNamespaces is the namespace identifier that stands for all.
const AllNamespaces = 0xffffffff
