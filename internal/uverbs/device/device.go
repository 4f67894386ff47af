//go:build linux

package device

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/deferral"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/sa"
	"softrdma/internal/steering"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
	"softrdma/verbs"
)

// The limits of a device that programs are told. The depth of a completion queue
// and the entries of a request bound the memory that a program can have mapped here.
const (
	MaxSGE     = 32
	MaxInline  = uapi.MaxInline
	MaxQPWR    = 1 << 14
	MaxCQE     = 1 << 18
	maxObjects = 1 << 16 // queue pairs, completion queues or SRQs
	maxRegions = 1 << 20
)

// spareMappings are left for what a program needs beside the objects of one kind: the
// completion queues of its queue pairs, and a page for each file.
const spareMappings = 64

// What objects count for as memory, besides their rings and mirrors. It is more than they take
// while they are idle; queue pairs have connections, timers and packets that wait.
const (
	ObjectBytes = 1 << 10
	PairBytes   = 16 << 10
)

// spareMemory is left for connections, files and event channels.
const spareMemory = 512 << 10

// gidTableLen is the length of the port's GID table. The entries after qp.RoCEGIDs are empty,
// as most of a hardware adapter's are.
const gidTableLen = 8

// The capabilities (ib_device_cap_flags) of RoCE devices: port active events,
// system image GUID, RNR NAKs, resizing of SRQs, memory windows of both types,
// and the extensions that invalidate keys; and of iWARP devices: the last alone.
const (
	deviceCaps = 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<17 | 1<<21 | 1<<24
	iwarpCaps  = 1 << 21
)

// MoreCaps are the capabilities of RoCE devices beyond the 32 bits of the others: FLUSH to
// global visibility, and ATOMIC WRITE.
const MoreCaps = 1<<38 | 1<<40

// A Device is a device of this process as programs find it.
type Device struct {
	Verbs   *verbs.Device
	Adapter *adapter.Device
	Index   int // among all devices
	Name    string
	Driver  Driver
	Fabric  *attach.Port // the port of an InfiniBand fabric; nil of other devices
	Subnet  *sa.Client   // of the same

	Ethernet *attach.Port // the port of an Ethernet fabric; nil of other devices

	Deferrals []deferral.Place // where the program of this process looks, by handles; nil elsewhere

	// LaneOwner returns the program that has a lane of the address, or nil; of an iWARP device of a
	// server.
	LaneOwner func(lane int) *client.Process

	mu     sync.Mutex
	owners map[uint32]*client.Process // that created a queue pair, by its number
}

// A Driver is a kernel driver whose layout of queues the device has. libibverbs
// finds its user-space provider by its number.
type Driver struct {
	Name string
	ID   uint32 // enum rdma_driver_id
}

// New makes the device after others. Its name is the driver's with a number,
// as Linux names the devices of its rxe and siw drivers.
func New(v *verbs.Device, others []*Device) *Device {
	e := registry.Of(v)
	d := &Device{
		Verbs: v, Adapter: e.Adapter, Driver: Driver{"rxe", 14}, Fabric: e.Fabric, Subnet: e.Subnet, Ethernet: e.Ethernet,
		Index: len(others), owners: make(map[uint32]*client.Process),
	}
	if d.Adapter.IWARP() {
		d.Driver = Driver{"siw", 18}
	}
	number := 0
	for _, o := range others {
		if o.Driver == d.Driver {
			number++
		}
	}
	d.Name = fmt.Sprint(d.Driver.Name, number)
	return d
}

// NewInProgram makes the device of a program in this process. Name and index are those of
// the server's device whose address it shares. The program finds in deferrals, which may be
// nil, which doorbells it may leave out.
func NewInProgram(v *verbs.Device, name string, index int, deferrals []deferral.Place) *Device {
	d := New(v, nil)
	d.Name, d.Index, d.Deferrals = name, index, deferrals
	return d
}

// FileName returns the name of its device file.
func (d *Device) FileName() string { return fmt.Sprint("uverbs", d.Index) }

// DeviceNumber returns the number of its device file, of the fixed range of uverbs.
func (d *Device) DeviceNumber() uint64 { return unix.Mkdev(231, 192+uint32(d.Index)) }

func (d *Device) Addr() netip.Addr { return d.Verbs.Addr().Addr() }

// GUID returns the device's GUID in the byte order in which programs compare it.
func (d *Device) GUID() (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(d.Verbs.Query().NodeGUID))
	return b
}

// SetOwner records the process that created a queue pair, or nil when it is gone.
func (d *Device) SetOwner(qpn uint32, p *client.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil {
		delete(d.owners, qpn)
	} else {
		d.owners[qpn] = p
	}
}

// OwnedBy reports whether a process created a queue pair.
func (d *Device) OwnedBy(qpn uint32, p *client.Process) bool {
	d.mu.Lock()
	o := d.owners[qpn]
	d.mu.Unlock()
	if o == nil && d.LaneOwner != nil {
		o = d.LaneOwner(steering.LaneOf(qpn, d.Adapter.Share().Of))
	}
	return o != nil && (o == p || o.PID == p.PID && o.Same(p))
}

// Path returns the path to an address. On RoCE v2 it ends at the UDP port of the device: programs
// know no ports, and a device that is not at RoCE's port can be answered only by devices that send
// to its port.
func (d *Device) Path(h *uapi.AHAttr) (qp.Path, error) {
	switch {
	case d.Adapter.IWARP():
		return qp.Path{}, fmt.Errorf("an iWARP device has no paths, librdmacm connects its queue pairs: %w", syscall.EOPNOTSUPP)
	case d.Fabric != nil:
		return fabricPath(h, fabricGIDs(d.Fabric.Info()))
	}
	p := h.Path(0)
	local, a := d.Addr(), p.Dst.Addr()
	switch {
	case h.IsGlobal == 0 || h.PortNum != 1:
		return qp.Path{}, fmt.Errorf("address without a global route, or not of port 1: %w", syscall.EINVAL)
	case p.SGIDIndex >= qp.RoCEGIDs:
		return qp.Path{}, noGID(qp.RoCEGIDs, p.SGIDIndex)
	case h.GRH.DGID == [16]byte{} || a.Is4() != local.Is4() && d.Verbs.Protocol() != verbs.RoCEv1:
		return qp.Path{}, fmt.Errorf("the device's address is %v, the peer's %v: %w", local, a, syscall.ENETUNREACH)
	}
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		a = a.WithZone(local.Zone())
	}
	p.Dst = netip.AddrPortFrom(a, d.Verbs.Addr().Port())
	p.FlowLabel &= 0xfffff
	if !a.IsMulticast() {
		p.HopLimit = routeHops
	}
	return p, nil
}

// routeHops is the hop limit of unicast packets. As in Linux (ib_resolve_unicast_gid_dmac) it is that of
// the route, whatever the program says: ibv_rc_pingpong says 1 also for peers behind routers.
const routeHops = 64

// noGID refuses an index without an entry in a GID table.
func noGID(entries int, index uint8) error {
	return client.Refuse(syscall.EINVAL, reason.GIDIndex, uint64(entries-1), uint64(index))
}

// Attributes returns the attributes of the device for a program whose user may have a
// number of mappings and bytes of memory.
//
// The number of objects of each kind is what a program can have of that kind alone. A
// queue takes a mapping and a queue pair two. A region takes one, or four as long as less
// than half of the mappings are in use and the program shares its memory.
func (d *Device) Attributes(mappings, memory int64) uapi.QueryDeviceResp {
	q, page := d.Verbs.Query(), int64(os.Getpagesize())
	most := func(mappings, bytes, limit int64) uint32 {
		return uint32(max(min(mappings, (memory-spareMemory)/bytes, limit), 0))
	}
	pairs, queues := most((mappings-spareMappings)/2, PairBytes+2*page, maxObjects), most(mappings-spareMappings, ObjectBytes+2*page, maxObjects)
	few := func(limit int64) uint32 { return most(limit, ObjectBytes, limit) } // which need no mapping
	r := uapi.QueryDeviceResp{
		MaxMRSize: q.MaxMRSize, PageSizeCap: 0xfffff000, VendorID: 0xffffff,
		MaxQP: pairs, MaxQPWR: MaxQPWR, DeviceCapFlags: deviceCaps, MaxSGE: MaxSGE, MaxSGERd: MaxSGE,
		MaxCQ: queues, MaxCQE: MaxCQE, MaxMR: most(mappings/2-spareMappings, ObjectBytes+2*page, maxRegions), MaxPD: few(1 << 20),
		MaxQPRdAtom: adapter.MaxReadAtomic, MaxResRdAtom: adapter.MaxReadAtomic * pairs, MaxQPInitRdAtom: adapter.MaxReadAtomic,
		// The processor has no atomics on another process's memory (see package memory). On
		// memory of this process atomics are its own (IBV_ATOMIC_GLOB), but UCX uses the
		// atomics of a device only if it finds IBV_ATOMIC_HCA.
		AtomicCap: 1,
		MaxMW:     few(1 << 20), MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 8192 * 56, MaxAH: few(1 << 15),
		MaxSRQ: queues, MaxSRQWR: MaxQPWR, MaxSRQSGE: MaxSGE, MaxPKeys: uint16(q.MaxPKeys), LocalCAAckDelay: 15, PhysPortCnt: 1,
	}
	if d.Adapter.IWARP() {
		// Report none of what siw's provider cannot ask for.
		r.MaxSGE, r.MaxSGERd, r.MaxSRQSGE = queue.SIWMaxSGE, queue.SIWMaxSGE, queue.SIWMaxSGE
		r.DeviceCapFlags, r.AtomicCap, r.MaxMW, r.MaxAH, r.MaxPKeys, r.LocalCAAckDelay = iwarpCaps, 0, 0, 0, 0, 0
		r.MaxMcastGrp, r.MaxMcastQPAttach, r.MaxTotalMcastQPAttach = 0, 0, 0
	}
	if d.Fabric != nil {
		n := &d.Fabric.Info().NodeInfo
		r.VendorID, r.VendorPartID, r.HWVer, r.MaxPKeys = n.VendorID, uint32(n.DeviceID), n.Revision, n.PartitionCap
	}
	binary.BigEndian.PutUint64(r.NodeGUID[:], uint64(q.NodeGUID))
	binary.BigEndian.PutUint64(r.SysImageGUID[:], uint64(q.SysImageGUID))
	return r
}

// Port returns the attributes of a port, of which there is one.
func (d *Device) Port(port uint32) (uapi.QueryPortResp, error) {
	if port != 1 {
		return uapi.QueryPortResp{}, syscall.EINVAL
	}
	if d.Fabric != nil {
		return fabricPort(d.Fabric.Info()), nil
	}
	p := d.Verbs.QueryPort()
	r := uapi.QueryPortResp{
		PortCapFlags: 1 << 16, // connection management is supported
		MaxMsgSz:     1 << 31, GIDTblLen: gidTableLen, PKeyTblLen: 1, State: 1, PhysState: 3,
		MaxMTU: uapi.MTUNumber(p.MaxMTU), ActiveMTU: uapi.MTUNumber(p.ActiveMTU), MaxVLNum: 1, LinkLayer: linkEthernet,
	}
	if p.Active {
		r.State, r.PhysState = 4, 5 // active, link up
	}
	l := d.rate()
	r.ActiveWidth, r.ActiveSpeed = l.Width, l.Speed
	if d.Adapter.IWARP() {
		r.GIDTblLen, r.PKeyTblLen, r.MaxVLNum = 1, 0, 0
	}
	return r, nil
}

// Caps returns the capabilities of the device (enum ib_device_cap_flags).
func (d *Device) Caps() uint64 {
	if d.Adapter.IWARP() {
		return iwarpCaps
	}
	return deviceCaps | MoreCaps
}
