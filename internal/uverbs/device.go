//go:build linux

package uverbs

import (
	stdcontext "context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/bridge"
	"softrdma/internal/cma"
	"softrdma/internal/qp"
	"softrdma/verbs"
)

// deviceName is what libibverbs chooses the provider by: the layout of the
// rings is Linux's Soft RoCE's, whose devices are called rxe.
const deviceName = "rxe0"

// The limits that programs are told. The depth of a completion queue and the
// entries of a request bound the memory that a program can have mapped here.
const (
	maxSGE     = 32
	maxInline  = 512
	maxQPWR    = 1 << 14
	maxCQE     = 1 << 18
	maxObjects = 1 << 16
)

// deviceCaps are the capabilities (ib_device_cap_flags): port active events,
// system image GUID, RNR NAKs, resizing of SRQs, memory windows of both types,
// and the extensions that invalidate keys.
const deviceCaps = 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<17 | 1<<21 | 1<<24

// A device is what all clients share.
type device struct {
	verbs *verbs.Device
	a     *adapter.Device
	stop  stdcontext.CancelFunc
	ctx   stdcontext.Context
	kinds map[string]*kind

	managed *managed

	mu       sync.Mutex
	contexts map[*context]struct{} // to be told of the device's events
}

func newDevice(v *verbs.Device) *device {
	d := &device{verbs: v, a: bridge.Device(v), contexts: make(map[*context]struct{})}
	d.ctx, d.stop = stdcontext.WithCancel(stdcontext.Background())
	d.kinds = map[string]*kind{
		// Numbers of the kernel's: uverbs' fixed range and one of the misc devices.
		"uverbs0": {rdev: unix.Mkdev(231, 192), open: func(f *file) service { return newContext(f, d) }},
		"rdma_cm": {rdev: unix.Mkdev(10, 59), open: func(f *file) service { return newManager(f, d, d.managed) }},
	}
	d.managed = &managed{m: cma.New(host{d}, cma.Config{}), ids: make(map[uint32]*ucmID), by: make(map[*cma.ID]*ucmID)}
	return d
}

func (d *device) kind(name string) *kind { return d.kinds[name] }

// close ends what runs for the device. All files have ended.
func (d *device) close() {
	d.stop()
	d.managed.m.Wait()
}

func (d *device) forget(x *context) {
	d.mu.Lock()
	delete(d.contexts, x)
	d.mu.Unlock()
}

// An eventTarget is an object whose program is told of its asynchronous events.
type eventTarget interface{ asyncEvent(t uint32) }

// deliverEvents passes the adapter's asynchronous events on to the programs
// whose objects they are about, the device's own to all.
func (d *device) deliverEvents() {
	for {
		e, err := d.a.NextEvent(d.ctx)
		if err != nil {
			return
		}
		t := uint32(e.Type)
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
			x.asyncEvent(t)
		} else if e.Element == nil {
			d.broadcast(t)
		}
	}
}

// broadcast tells every program of an event of the device or its port.
func (d *device) broadcast(t uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.contexts {
		x.async.put(bytesOf(&asyncEvent{Element: 1, EventType: t}))
	}
}

// mtuEnum is the number of an MTU in the interface: 1 for 256 to 5 for 4096.
func mtuEnum(n int) uint8 { return uint8(max(bits.Len(uint(n))-8, 0)) }

// path is where a global route leads, as the verbs have it.
func (d *device) path(dgid [16]byte, sgidIndex uint8, flowLabel uint32, class, hops uint8) (qp.Path, error) {
	local := d.verbs.Addr().Addr()
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
	return qp.Path{
		Dst: netip.AddrPortFrom(a, verbs.Port), SGIDIndex: sgidIndex, FlowLabel: flowLabel & 0xfffff, TrafficClass: class, HopLimit: hops,
	}, nil
}

func (x *context) getContext(c *command) error {
	if x.async != nil {
		return syscall.EINVAL
	}
	var end int
	var err error
	if x.async, end, err = newPipe(size[asyncEvent]()); err != nil {
		return err
	}
	x.dev.mu.Lock()
	x.dev.contexts[x] = struct{}{}
	x.dev.mu.Unlock()
	if err := c.respond(bytesOf(&getContextResp{NumCompVectors: 1}), nil); err != nil {
		unix.Close(end)
		return err
	}
	c.answer.give(end, c.out.addr, 4, false)
	return nil
}

func (d *device) query() queryDeviceResp {
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
	binary.BigEndian.PutUint64(r.NodeGUID[:], uint64(q.NodeGUID))
	binary.BigEndian.PutUint64(r.SysImageGUID[:], uint64(q.SysImageGUID))
	return r
}

func (x *context) queryDevice(c *command) error {
	r := x.dev.query()
	return c.respond(bytesOf(&r), nil)
}

func (x *context) exQueryDevice(c *command) error {
	r := exQueryDeviceResp{Base: x.dev.query()}
	r.DeviceCapFlagsEx = uint64(r.Base.DeviceCapFlags)
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
		MaxMsgSz:     1 << 31, GIDTblLen: 1, PKeyTblLen: 1, State: 1, PhysState: 3,
		MaxMTU: mtuEnum(p.MaxMTU), ActiveMTU: mtuEnum(p.ActiveMTU), MaxVLNum: 1, ActiveWidth: 1, ActiveSpeed: 1, LinkLayer: 2,
	}
	if p.Active {
		r.State, r.PhysState = 4, 5 // active, link up
	}
	r.ActiveWidth, r.ActiveSpeed = rate(p.SpeedMbps)
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
	return c.respond(bytesOf(&r), nil)
}
