//go:build linux

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/cmid"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A Device is a device of a daemon that is open in this process. It corresponds to
// the kernel's device file.
type Device struct {
	Info Attributes

	socket string
	file   uint64   // the daemon's number of the device file
	pipe   *os.File // the descriptor of the file, at end of file when the daemon ends
	async  *records

	moves sync.Mutex // held while an id moves to another event channel; taken before an id's lock

	mu     sync.Mutex
	idle   []*conn
	conns  map[*conn]struct{}
	owners map[uint64]any // by the number that events carry
	pins   map[*pin]struct{}
	pipes  map[*records]struct{}
	events map[*events]struct{}
	next   uint64
	closed bool // closed by this process: calls are refused

	dead    atomic.Bool   // the device has ended
	ended   chan struct{} // closed when the device's goroutine has ended
	closing sync.Once
	leaving atomic.Bool // this process is closing the device
	fatal   atomic.Bool // the event of the device's end was delivered

	counts counts
}

// Attributes are the constant attributes of an open device.
type Attributes struct {
	Name      string         // name in the daemon
	Socket    string         // the daemon's
	PID       int            // the daemon's
	Addr      netip.AddrPort // address that peers send to
	GUID      uint64
	GID       [16]byte
	MTU       int // active MTU in bytes
	Limits    uapi.QueryDeviceResp
	SpeedMbps int
	Protocol  cmid.Protocol
	Reasons   bool // the daemon numbers reasons as this process does
}

// MaxInline is the largest inline data of a request in bytes.
const MaxInline = uapi.MaxInline

// firstOwner is the lowest number of an object in events; 1 is the device.
const firstOwner = 2

// deviceName matches the names that a daemon gives to devices.
var deviceName = regexp.MustCompile(`^[a-z]+[0-9]+$`)

// split splits a name into the path of a socket and the name of a device. Either
// can be empty.
func split(name string) (socket, device string) {
	if dir, last := filepath.Split(name); deviceName.MatchString(last) {
		return strings.TrimSuffix(dir, "/"), last
	}
	return name, ""
}

// A target is a device of a daemon.
type target struct {
	socket, device string
	file           string // the name of the device's file
	about          *Info  // of the daemon
}

// locate finds the device of a name that Open takes.
func locate(name string) (*target, error) {
	socket, device := split(name)
	socket, about, err := find(socket)
	if err != nil {
		return nil, err
	}
	index := 0
	if device != "" {
		index = slices.IndexFunc(about.Devices, func(line string) bool { return strings.HasPrefix(line, device+" ") })
	}
	if index < 0 || index >= len(about.Devices) {
		return nil, fmt.Errorf("daemon on %s: no device %q, it serves: %s", socket, device, strings.Join(about.Devices, ", "))
	}
	device, _, _ = strings.Cut(about.Devices[index], " ")
	return &target{socket, device, fmt.Sprint("uverbs", index), about}, nil
}

// Open opens a device. The name is the path of a daemon's socket, "" to search for
// one, followed by a device name like "/rxe1" unless it is the first device.
func Open(name string) (*Device, error) {
	t, err := locate(name)
	if err != nil {
		return nil, err
	}
	socket, device := t.socket, t.device
	d := &Device{
		socket: socket, conns: make(map[*conn]struct{}), owners: make(map[uint64]any), pins: make(map[*pin]struct{}),
		pipes: make(map[*records]struct{}), events: make(map[*events]struct{}), next: firstOwner, ended: make(chan struct{}),
	}
	d.Info = Attributes{Name: device, Socket: socket, PID: t.about.PID}
	if err := d.open(t.file); err != nil {
		return nil, fmt.Errorf("daemon on %s: %s: %w", socket, device, err)
	}
	if err := d.describe(); err != nil {
		return nil, errors.Join(fmt.Errorf("daemon on %s: %s: %w", socket, device, err), d.Close())
	}
	return d, nil
}

// open opens the device's file and starts to watch it.
func (d *Device) open(name string) error {
	file, fd, err := d.openFile(name)
	if err == nil {
		d.file = file
		d.pipe, err = pollable(fd, "device")
	}
	if err != nil {
		close(d.ended)
		d.dead.Store(true)
		return errors.Join(err, d.Close())
	}
	go d.watch()
	return nil
}

// openFile opens a file of the daemon and returns its number and descriptor.
func (d *Device) openFile(name string) (file uint64, fd int, err error) {
	c, err := d.take()
	if err != nil {
		return 0, -1, err
	}
	r := uapi.Request{Op: uapi.OpOpen | uapi.OpTell, Arg: [4]uint64{1: uint64(uintptr(unsafe.Pointer(c)))}}
	p, text, fds, err := c.call(&r, []byte(name), nil)
	if err == nil {
		err = failure(&p, text, d.Info.Reasons)
	}
	d.give(c, err != nil)
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("open gave %d descriptors: %w", len(fds), syscall.EPROTO)
	}
	if err != nil {
		closeAll(fds)
		return 0, -1, err
	}
	return p.File, fds[0], nil
}

// pollable returns a file for a descriptor, which Go's poller can wait on.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// watch waits for the end of the daemon or for Close.
func (d *Device) watch() {
	defer close(d.ended)
	var b [1]byte
	for {
		if n, err := d.pipe.Read(b[:]); n == 0 || err != nil {
			break // the daemon never writes to the pipe
		}
	}
	d.dead.Store(true)
}

// describe queries the device's attributes.
func (d *Device) describe() error {
	own := uapi.OwnContext{}
	a, fds, err := d.obtain(uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), uapi.Bytes(&own),
		uapi.Size[uapi.GetContextResp](), uapi.Size[uapi.OwnContextResp]())
	if err != nil {
		return err
	}
	about, _ := uapi.Parse[uapi.OwnContextResp](a[uapi.Size[uapi.GetContextResp]():])
	if len(fds) != 1 || about.Port == 0 && cmid.Protocol(about.Protocol) != cmid.IWARP {
		closeAll(fds)
		return fmt.Errorf("GET_CONTEXT with %d descriptors, port %d: %w", len(fds), about.Port, syscall.EPROTO)
	}
	if d.async, err = d.newRecords(fds[0], uapi.Size[uapi.OwnEvent](), "events"); err != nil {
		return err
	}
	d.Info.Addr = netip.AddrPortFrom(netip.AddrFrom16(about.Addr).Unmap(), about.Port)
	d.Info.Protocol, d.Info.GID = cmid.Protocol(about.Protocol), about.GID
	d.Info.Reasons = about.Reasons == uapi.Reasons()
	if d.Info.Limits, err = ask[uapi.QueryDeviceResp](d, uapi.CmdQueryDevice, uapi.Bytes(&uapi.Response{})); err != nil {
		return err
	}
	d.Info.GUID = binary.BigEndian.Uint64(d.Info.Limits.NodeGUID[:])
	p, err := d.port()
	d.Info.MTU = uapi.MTU(p.ActiveMTU)
	d.Info.SpeedMbps = rate(&p).Mbps()
	return err
}

func (d *Device) port() (uapi.QueryPortResp, error) {
	return ask[uapi.QueryPortResp](d, uapi.CmdQueryPort, uapi.Bytes(&uapi.QueryPort{PortNum: 1}))
}

// FabricPort implements provider.Fabric. The port of a daemon that has ended is down.
func (d *Device) FabricPort() provider.FabricPort {
	n := uapi.Size[uapi.QueryPortResp]()
	own := uapi.OwnPort{Tables: 1}
	a, err := d.command(uapi.CmdQueryPort, uapi.Bytes(&uapi.QueryPort{PortNum: 1}), uapi.Bytes(&own), n, uapi.Size[uapi.OwnPortTables]())
	if err != nil {
		return provider.FabricPort{State: 1, GIDs: [][16]byte{d.Info.GID}, PKeys: []uint16{0}}
	}
	p, _ := uapi.Parse[uapi.QueryPortResp](a)
	t, _ := uapi.Parse[uapi.OwnPortTables](a[n:])
	return provider.FabricPort{
		State: p.State, MaxMTU: uapi.MTU(p.MaxMTU), ActiveMTU: uapi.MTU(p.ActiveMTU), SpeedMbps: rate(&p).Mbps(),
		LID: p.LID, LMC: p.LMC, SMLID: p.SMLID, SMSL: p.SMSL, SubnetPrefix: binary.BigEndian.Uint64(t.GIDs[0][:8]),
		GIDs: t.GIDs[:max(1, min(int(p.GIDTblLen), len(t.GIDs)))], PKeys: t.PKeys[:max(1, min(int(p.PKeyTblLen), len(t.PKeys)))],
	}
}

// ah converts a path of the device.
func (d *Device) ah(p *qp.Path) uapi.AHAttr {
	if d.Info.Protocol == cmid.InfiniBand {
		return uapi.FabricAHOf(p)
	}
	return uapi.AHOf(p)
}

// path converts ah back. The UDP port is that of a RoCE device.
func (d *Device) path(h *uapi.AHAttr, port uint16) qp.Path {
	if d.Info.Protocol == cmid.InfiniBand {
		return h.FabricPath()
	}
	return h.Path(port)
}

// Counters implements provider.Device. There are none if the daemon numbers reasons
// otherwise or has ended.
func (d *Device) Counters() iter.Seq2[reason.Reason, uint64] {
	return func(yield func(reason.Reason, uint64) bool) {
		for next := reason.Reason(0); d.Info.Reasons; {
			r, err := d.counters(next)
			if err != nil {
				return
			}
			for _, c := range r.Counters {
				if c.N == 0 || reason.Reason(c.Reason) < next || !yield(reason.Reason(c.Reason), c.N) {
					return
				}
				next = reason.Reason(c.Reason) + 1
			}
		}
	}
}

// Traffic implements provider.Device. It is 0 if the daemon has ended.
func (d *Device) Traffic() (sent, received uint64) {
	r, err := d.counters(reason.Count)
	if err != nil {
		return 0, 0
	}
	return r.Sent, r.Received
}

// counters asks for the counters of the reasons from one on, and those of payload.
func (d *Device) counters(from reason.Reason) (r uapi.OwnPortResp, err error) {
	own := uapi.OwnPort{From: uint32(from)}
	n := uapi.Size[uapi.QueryPortResp]()
	a, err := d.command(uapi.CmdQueryPort, uapi.Bytes(&uapi.QueryPort{PortNum: 1}), uapi.Bytes(&own), n, uapi.Size[uapi.OwnPortResp]())
	if err == nil {
		r, _ = uapi.Parse[uapi.OwnPortResp](a[n:])
	}
	return r, err
}

// Up reports whether the port is active.
func (d *Device) Up() bool {
	p, err := d.port()
	return err == nil && p.State == 4 // IB_PORT_ACTIVE
}

// MTU implements provider.Device. A subnet manager may change that of a port of a fabric.
func (d *Device) MTU() int {
	if d.Info.Protocol == cmid.InfiniBand {
		return d.FabricPort().ActiveMTU
	}
	return d.Info.MTU
}

// Closed implements provider.Device. It is also true after the end of the daemon.
func (d *Device) Closed() error {
	if d.dead.Load() {
		return object.ErrClosed
	}
	return nil
}

// Close implements provider.Device. When it returns the daemon no longer accesses
// registered memory.
func (d *Device) Close() error {
	d.closing.Do(func() {
		d.leaving.Store(true)
		for _, h := range d.channels() {
			h.lose()
			h.end()
		}
		if d.pipe != nil && !d.dead.Load() {
			r := uapi.Request{Op: uapi.OpClose}
			_, _, _ = d.call(&r, nil, nil, nil, nil) // fails if the daemon has ended
		}
		d.mu.Lock()
		d.closed = true
		pipes, pins := d.pipes, d.pins
		d.pipes, d.pins = nil, nil
		for _, c := range d.idle {
			delete(d.conns, c)
			c.close()
		}
		d.idle = nil
		for c := range d.conns {
			c.hangUp() // the goroutine that uses the connection closes it
		}
		d.mu.Unlock()
		d.dead.Store(true)
		for p := range pipes {
			p.close()
		}
		if d.pipe != nil {
			_ = d.pipe.Close()
		}
		<-d.ended
		for p := range pins {
			p.Unpin()
		}
	})
	return nil
}

var (
	_ provider.Device = (*Device)(nil)
	_ provider.Fabric = (*Device)(nil)
)

// rate returns a port's rate.
func rate(p *uapi.QueryPortResp) uapi.LinkRate {
	return uapi.LinkRate{Width: p.ActiveWidth, Speed: p.ActiveSpeed}
}
