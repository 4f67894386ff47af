//go:build linux

package uverbs

import (
	"cmp"
	stdcontext "context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/bridge"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
	"softrdma/verbs"
)

// The limits that programs are told. The depth of a completion queue and the
// entries of a request bound the memory that a program can have mapped here.
const (
	maxSGE     = 32
	maxInline  = uapi.MaxInline
	maxQPWR    = 1 << 14
	maxCQE     = 1 << 18
	maxObjects = 1 << 16
)

// gidTableLen is the length of the port's table of GIDs. The device has one;
// the entries behind it are empty, as most of an adapter's are.
const gidTableLen = 8

// The capabilities (ib_device_cap_flags) of RoCE devices: port active events,
// system image GUID, RNR NAKs, resizing of SRQs, memory windows of both types,
// and the extensions that invalidate keys; and of iWARP devices: the last alone.
const (
	deviceCaps = 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<17 | 1<<21 | 1<<24
	iwarpCaps  = 1 << 21
)

// atomicWriteCap is the capability of ATOMIC WRITE, beyond the 32 bits of the others.
const atomicWriteCap = 1 << 40

// A device is what all clients share.
type device struct {
	verbs    *verbs.Device
	a        *adapter.Device
	provider provider
	index    int // among all devices
	name     string
	rang     atomic.Uint32 // queue pair of the last doorbell

	mu       sync.Mutex
	contexts map[*context]struct{} // to be told of the device's events
	owners   map[uint32]*process   // who made a queue pair, by its number
}

// newDevice makes the device behind others. Its name is what libibverbs chooses
// the provider by: the layout of the queues is that of Linux's drivers, whose
// devices are called rxe and siw and a number.
func newDevice(v *verbs.Device, others []*device) *device {
	d := &device{verbs: v, a: bridge.Device(v), provider: rxe{}, index: len(others), contexts: make(map[*context]struct{}),
		owners: make(map[uint32]*process)}
	if d.a.IWARP() {
		d.provider = siw{}
	}
	number := 0
	for _, o := range others {
		if o.provider == d.provider {
			number++
		}
	}
	kind, _ := d.provider.driver()
	d.name = fmt.Sprint(kind, number)
	return d
}

// file is the name of its device file.
func (d *device) file() string { return fmt.Sprint("uverbs", d.index) }

// rdev is the number of its device file, of uverbs' fixed range.
func (d *device) rdev() uint64 { return unix.Mkdev(231, 192+uint32(d.index)) }

func (d *device) addr() netip.Addr { return d.verbs.Addr().Addr() }

// guid is the device's number as programs compare it.
func (d *device) guid() (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(d.verbs.Query().NodeGUID))
	return b
}

// own notes who made a queue pair, nil that it is gone.
func (d *device) own(qpn uint32, p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil {
		delete(d.owners, qpn)
	} else {
		d.owners[qpn] = p
	}
}

// ownedBy tells whether a process made a queue pair.
func (d *device) ownedBy(qpn uint32, p *process) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owners[qpn]
	return o != nil && (o == p || o.pid == p.pid && o.is(p))
}

func (d *device) forget(x *context) {
	d.mu.Lock()
	delete(d.contexts, x)
	d.mu.Unlock()
}

// An eventTarget is an object whose program is told of its asynchronous events.
type eventTarget interface{ asyncEvent(e adapter.AsyncEvent) }

// deliverEvents passes the adapter's asynchronous events on to the programs
// whose objects they are about, the device's own to all.
func (d *device) deliverEvents(ctx stdcontext.Context) {
	for {
		e, err := d.a.NextEvent(ctx)
		if err != nil {
			return
		}
		var owner any
		switch o := e.Element.(type) {
		case *adapter.QP:
			owner = o.Owner
		case *adapter.CQ:
			owner = o.Owner
		case *adapter.SRQ:
			owner = o.Owner
		}
		if x, ok := owner.(eventTarget); ok {
			x.asyncEvent(e)
		} else if e.Element == nil {
			d.broadcast(e.Type)
		}
	}
}

// broadcast tells every program of an event of the device or its port.
func (d *device) broadcast(t machine.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.contexts {
		x.tell(t, 1)
	}
}

// mtuEnum is the number of an MTU in the interface: 1 for 256 to 5 for 4096.
func mtuEnum(n int) uint8 { return uint8(max(bits.Len(uint(n))-8, 0)) }

// path is where a global route leads, as the verbs have it, to a UDP port, 0
// for RoCE's. Programs know of no port, and the device's own address is the
// device, whatever port that has.
func (d *device) path(dgid [16]byte, port uint16, sgidIndex uint8, flowLabel uint32, class, hops uint8) (qp.Path, error) {
	if d.a.IWARP() {
		return qp.Path{}, fmt.Errorf("an iWARP device has no paths, librdmacm connects its queue pairs: %w", syscall.EOPNOTSUPP)
	}
	local := d.addr()
	a := netip.AddrFrom16(dgid).Unmap()
	switch {
	case sgidIndex != 0:
		return qp.Path{}, fmt.Errorf("SGID index: expected 0, found %d: %w", sgidIndex, syscall.EINVAL)
	case dgid == [16]byte{} || a.Is4() != local.Is4():
		return qp.Path{}, fmt.Errorf("the device's address is %v, the peer's %v: %w", local, a, syscall.ENETUNREACH)
	}
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		a = a.WithZone(local.Zone())
	}
	if port == 0 && a == local {
		port = d.verbs.Addr().Port()
	}
	return qp.Path{
		Dst: netip.AddrPortFrom(a, cmp.Or(port, verbs.Port)), SGIDIndex: sgidIndex, FlowLabel: flowLabel & 0xfffff, TrafficClass: class, HopLimit: hops,
	}, nil
}

func (x *context) getContext(c *command) error {
	if x.async != nil {
		return syscall.EINVAL
	}
	var end int
	var err error
	_, x.own = parse[uapi.OwnContext](c.driver)
	record := size[asyncEvent]()
	if x.own {
		record = size[uapi.OwnEvent]()
		x.provider = rxe{} // whose rings are the adapter's own, whatever it speaks
	}
	if x.async, end, err = newPipe(record, x.file.account); err != nil {
		return err
	}
	x.dev.mu.Lock()
	x.dev.contexts[x] = struct{}{}
	x.dev.mu.Unlock()
	about := x.provider.context()
	if x.own {
		o := uapi.OwnContextResp{Addr: x.dev.addr().As16(), Port: x.dev.verbs.Addr().Port(), Reasons: uapi.Reasons(), GID: x.dev.verbs.GID()}
		if x.dev.a.IWARP() {
			o.IWARP = 1
		}
		about = bytesOf(&o)
	}
	if err := c.respond(bytesOf(&getContextResp{NumCompVectors: 1}), about); err != nil {
		unix.Close(end)
		return err
	}
	c.answer.give(end, c.out.addr, 4, kindAsync)
	return nil
}

// query is what programs are told of the device, this module's own that much
// more of an iWARP device as its provider can do more than siw's.
func (d *device) query(own bool) queryDeviceResp {
	q := d.verbs.Query()
	r := queryDeviceResp{
		MaxMRSize: q.MaxMRSize, PageSizeCap: 0xfffff000, VendorID: 0xffffff,
		MaxQP: maxObjects, MaxQPWR: maxQPWR, DeviceCapFlags: deviceCaps, MaxSGE: maxSGE, MaxSGERd: maxSGE,
		MaxCQ: maxObjects, MaxCQE: maxCQE, MaxMR: 1 << 20, MaxPD: 1 << 20,
		MaxQPRdAtom: adapter.MaxReadAtomic, MaxResRdAtom: adapter.MaxReadAtomic * maxObjects, MaxQPInitRdAtom: adapter.MaxReadAtomic,
		// Other processes' memory cannot be changed in one step (see package memory).
		AtomicCap: 1,
		MaxMW:     1 << 20, MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 8192 * 56, MaxAH: 1 << 15,
		MaxSRQ: maxObjects, MaxSRQWR: maxQPWR, MaxSRQSGE: maxSGE, MaxPKeys: uint16(q.MaxPKeys), LocalCAAckDelay: 15, PhysPortCnt: 1,
	}
	if d.a.IWARP() && !own {
		// What siw's driver cannot ask for there is none of.
		most, _ := d.provider.limits()
		r.MaxSGE, r.MaxSGERd, r.MaxSRQSGE = uint32(most), uint32(most), uint32(most)
		r.DeviceCapFlags, r.AtomicCap, r.MaxMW, r.MaxAH, r.MaxPKeys, r.LocalCAAckDelay = iwarpCaps, 0, 0, 0, 0, 0
		r.MaxMcastGrp, r.MaxMcastQPAttach, r.MaxTotalMcastQPAttach = 0, 0, 0
	}
	binary.BigEndian.PutUint64(r.NodeGUID[:], uint64(q.NodeGUID))
	binary.BigEndian.PutUint64(r.SysImageGUID[:], uint64(q.SysImageGUID))
	return r
}

func (x *context) queryDevice(c *command) error {
	r := x.dev.query(x.own)
	return c.respond(bytesOf(&r), nil)
}

func (x *context) exQueryDevice(c *command) error {
	r := exQueryDeviceResp{Base: x.dev.query(x.own)}
	r.DeviceCapFlagsEx = uint64(r.Base.DeviceCapFlags)
	if !x.dev.a.IWARP() {
		r.DeviceCapFlagsEx |= atomicWriteCap
	}
	r.ResponseLength = uint32(min(c.out.n, size[exQueryDeviceResp]()))
	return c.respond(bytesOf(&r), nil)
}

func (d *device) queryPort(port uint32) (queryPortResp, error) {
	if port != 1 {
		return queryPortResp{}, syscall.EINVAL
	}
	p := d.verbs.QueryPort()
	r := queryPortResp{
		PortCapFlags: 1 << 16, // connection management is supported
		MaxMsgSz:     1 << 31, GIDTblLen: gidTableLen, PKeyTblLen: 1, State: 1, PhysState: 3,
		MaxMTU: mtuEnum(p.MaxMTU), ActiveMTU: mtuEnum(p.ActiveMTU), MaxVLNum: 1, ActiveWidth: 1, ActiveSpeed: 1, LinkLayer: 2,
	}
	if p.Active {
		r.State, r.PhysState = 4, 5 // active, link up
	}
	r.ActiveWidth, r.ActiveSpeed = rate(p.SpeedMbps)
	if d.a.IWARP() {
		r.GIDTblLen, r.PKeyTblLen, r.MaxVLNum = 1, 0, 0
	}
	return r, nil
}

// rate gives the width and speed whose product is not above a rate: 1x at 2.5,
// 5, 10, 14, 25, 50 or 100 Gb/s a lane.
func rate(mbps int) (width, speed uint8) {
	width, speed = 1, 1
	for _, r := range []struct {
		mbps  int
		speed uint8
	}{{5000, 2}, {10000, 4}, {14000, 16}, {25000, 32}, {50000, 64}, {100000, 128}} {
		if mbps >= r.mbps {
			speed = r.speed
		}
	}
	return width, speed
}

func (x *context) queryPort(c *command) error {
	q, _ := parse[queryPort](c.core)
	r, err := x.dev.queryPort(uint32(q.PortNum))
	if err != nil {
		return err
	}
	if from, ok := ownPart[uapi.OwnPort](c, x); ok {
		more := x.dev.counters(reason.Reason(from.From))
		return c.respond(bytesOf(&r), bytesOf(&more))
	}
	return c.respond(bytesOf(&r), nil)
}

// counters are those of the reasons that were given, from one on.
func (d *device) counters(from reason.Reason) (all uapi.OwnPortResp) {
	i := 0
	for r, n := range d.a.Trace.Counters(from) {
		if i == len(all.Counters) {
			break
		}
		all.Counters[i].Reason, all.Counters[i].N = uint32(r), n
		i++
	}
	return all
}
