package rdmanl

import "softrdma/internal/object"

// A Source describes devices and what programs have on them, at the moment when it is asked.
type Source interface {
	// Devices returns the devices. The index of each is its place.
	Devices() []Device
	// Port returns the port of a device, of which there is one.
	Port(device int) Port
	// Objects returns the objects on a device that the asking program may see.
	Objects(device int) *object.List
	// Statistics returns the counters of a device's port, always in the same order.
	Statistics(device int) []Statistic
	// Chardev returns the device file of a kind: that of a device, or with -1 the one for all.
	Chardev(kind string, device int) (Chardev, bool)
}

// A Device is a device of RDMA.
type Device struct {
	Name         string
	NodeType     uint8  // of InfiniBand: 1 is a channel adapter, 4 an RNIC
	Protocol     string // ib, roce or iw
	Caps         uint64 // enum ib_device_cap_flags
	NodeGUID     uint64
	SysImageGUID uint64
}

// A Port is the port of a device.
type Port struct {
	State, PhysState uint8
	InfiniBand       *InfiniBandPort // nil for devices on Ethernet
	Interface        string          // of devices on Ethernet
	InterfaceIndex   uint32
}

// An InfiniBandPort is what only a port of a fabric has.
type InfiniBandPort struct {
	CapFlags, SubnetPrefix uint64
	LID, SMLID             uint32
	LMC                    uint8
}

// A Chardev is a device file.
type Chardev struct {
	Name     string
	ABI      uint64
	Number   uint64 // major and minor as the kernel encodes them (huge_encode_dev)
	DriverID *uint32
}

// A Statistic is a counter by name.
type Statistic struct {
	Name  string
	Value uint64
}
