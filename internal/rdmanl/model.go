package rdmanl

import (
	"cmp"
	"net/netip"
	"slices"
)

// A Source describes devices and what programs have on them, at the moment when it is asked.
type Source interface {
	// Devices returns the devices. The index of each is its place.
	Devices() []Device
	// Port returns the port of a device, of which there is one.
	Port(device int) Port
	// Objects returns the objects on a device that the asking program may see.
	Objects(device int) *Objects
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

// An Owner is the process that has created an object, or the part of the system by its name.
type Owner struct {
	PID    uint32 `json:"pid,omitempty"`
	Kernel string `json:"kernel,omitempty"`
}

// Objects are the objects on a device. Numbers are unique among objects of a kind on a device.
type Objects struct {
	Contexts []Context    `json:"contexts,omitempty"`
	PDs      []PD         `json:"pds,omitempty"`
	CQs      []CQ         `json:"cqs,omitempty"`
	MRs      []MR         `json:"mrs,omitempty"`
	SRQs     []SRQ        `json:"srqs,omitempty"`
	QPs      []QP         `json:"qps,omitempty"`
	IDs      []Identifier `json:"ids,omitempty"`
}

// A Context is an open device file.
type Context struct {
	Owner
	Number uint32 `json:"number"`
}

// A PD is a protection domain.
type PD struct {
	Owner
	Number  uint32 `json:"number"`
	Context uint32 `json:"context"`
	Uses    uint64 `json:"uses"` // objects in it
}

// A CQ is a completion queue.
type CQ struct {
	Owner
	Number  uint32 `json:"number"`
	Context uint32 `json:"context"`
	Entries uint32 `json:"entries"`
	Uses    uint64 `json:"uses"` // queues that complete to it
}

// An MR is a memory region.
type MR struct {
	Owner
	Number     uint32 `json:"number"`
	PD         uint32 `json:"pd"`
	LKey, RKey uint32
	Length     uint64 `json:"length"`
}

// An SRQ is a shared receive queue.
type SRQ struct {
	Owner
	Number uint32   `json:"number"`
	PD     uint32   `json:"pd"`
	QPs    []uint32 `json:"qps,omitempty"`
}

// A QP is a queue pair.
type QP struct {
	Owner
	QPN        uint32 `json:"qpn"`
	PD         uint32 `json:"pd"`
	Type       uint8  `json:"type"` // enum ib_qp_type
	State      uint8  `json:"state"`
	RemoteQPN  uint32 `json:"remoteQPN"`
	RecvPSN    uint32 `json:"recvPSN"`
	SendPSN    uint32 `json:"sendPSN"`
	IsInternal bool   `json:"internal,omitempty"` // it has no protection domain of a program
}

// The types of queue pairs (enum ib_qp_type).
const (
	TypeGSI = 1
	TypeRC  = 2
	TypeUC  = 3
	TypeUD  = 4
)

// connected reports whether a queue pair has one peer.
func (q *QP) connected() bool { return q.Type == TypeRC || q.Type == TypeUC }

// An Identifier is an id of the connection manager (rdma_cm_id).
type Identifier struct {
	Owner
	Number    uint32         `json:"number"`
	QPN       uint32         `json:"qpn"` // 0 if it has no queue pair
	Type      uint8          `json:"type"`
	State     uint8          `json:"state"`     // enum rdma_cm_state
	PortSpace uint32         `json:"portSpace"` // enum rdma_ucm_port_space
	Port      bool           `json:"port"`      // it is bound to the device's port
	Src       netip.AddrPort `json:"src"`
	Dst       netip.AddrPort `json:"dst"`
}

// Sort puts the objects of each kind in the order of their numbers.
func (o *Objects) Sort() {
	slices.SortFunc(o.Contexts, func(a, b Context) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(o.PDs, func(a, b PD) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(o.CQs, func(a, b CQ) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(o.MRs, func(a, b MR) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(o.SRQs, func(a, b SRQ) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(o.QPs, func(a, b QP) int { return cmp.Compare(a.QPN, b.QPN) })
	slices.SortFunc(o.IDs, func(a, b Identifier) int { return cmp.Compare(a.Number, b.Number) })
}
