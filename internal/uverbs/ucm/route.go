//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

func gid(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.WithZone("").As16()
}

// pkey is the default partition's, big endian.
var pkey = [2]byte{0xff, 0xff}

func (m *channel) queryRoute(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	var r uapi.CMRoute
	uapi.PutAddr(r.Src[:], x.id.Local())
	uapi.PutAddr(r.Dst[:], x.id.Remote())
	if d := m.all.host.of(x.id.Device()); d != nil {
		r.NodeGUID, r.PortNum = d.GUID(), 1
		route := x.id.Route()
		r.Path[0] = uapi.UserPathRec{DGID: gid(x.id.Remote().Addr()), SGID: gid(x.id.Local().Addr()), PKey: pkey}
		if d.Fabric != nil {
			d.PutPath(&r.Path[0], &route.Path, route.PKey)
			r.Path[0].DGID = gid(route.GID)
		}
		if route.MTU != 0 {
			r.NumPaths = 1
			p := &r.Path[0]
			p.Reversible, p.NumbPath, p.MTU, p.MTUSelector = 1, 1, uint32(uapi.MTUNumber(route.MTU)), 2
			p.HopLimit, p.TrafficClass = route.Path.HopLimit, route.Path.TrafficClass
			binary.BigEndian.PutUint32(p.FlowLabel[:], route.Path.FlowLabel)
			p.RateSelector, p.Rate = 2, max(route.Rate, 2) // otherwise 2.5 Gb/s: nothing is paced by it
			p.LifeTimeSelector, p.LifeTime = 2, route.PacketLifeTime
		}
	}
	return c.respond(q.Response, uapi.Bytes(&r))
}

// The options of ucmQuery.
const (
	queryAddr = 0
	queryPath = 1
	queryGID  = 2
)

func (m *channel) query(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Arg != queryAddr {
		return syscall.ENOSYS // there are no InfiniBand addresses
	}
	if c.out < uapi.Size[uapi.CMAddr]() {
		return syscall.ENOSPC
	}
	var r uapi.CMAddr
	r.SrcSize, r.DstSize = uapi.PutAddr(r.Src[:], x.id.Local()), uapi.PutAddr(r.Dst[:], x.id.Remote())
	if d := m.all.host.of(x.id.Device()); d != nil {
		r.NodeGUID, r.PortNum, r.PKey = d.GUID(), 1, pkey
	}
	return c.respond(q.Response, uapi.Bytes(&r))
}

// paramsOf converts the parameters of a command.
func paramsOf(p *uapi.ConnParam) *cmid.ConnParam {
	return &cmid.ConnParam{
		PrivateData: p.Private[:p.PrivateLen], ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl != 0, RetryCount: p.RetryCount & 7, RNRRetryCount: p.RNRRetryCount & 7, SRQ: p.SRQ != 0,
		QPN: p.QPN, QKey: p.QKey,
	}
}

func (m *channel) connect(c *command) error {
	q, _ := uapi.Parse[uapi.CMConnectCmd](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Conn.Valid == 0 {
		return syscall.EINVAL
	}
	if err := m.owns(c, x, q.Conn.QPN); err != nil {
		return err
	}
	return x.id.Connect(paramsOf(&q.Conn))
}

// owns checks that a process may connect a queue pair. Over RoCE its number is only
// sent to the peer; over iWARP the queue pair becomes the connection's.
func (m *channel) owns(c *command, x *connection, qpn uint32) error {
	d := m.all.host.of(x.id.Device())
	if d == nil || !d.Adapter.IWARP() || d.OwnedBy(qpn, c.Process) {
		return nil
	}
	return fmt.Errorf("no queue pair %#06x of this process: %w", qpn, client.Refuse(syscall.EINVAL, reason.CommandHandle, 0, uint64(qpn)))
}

// accept answers a request, or completes a response. The program names the id of a
// request only here.
func (m *channel) accept(c *command) error {
	q, _ := uapi.Parse[uapi.CMAcceptCmd](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Conn.Valid == 0 {
		return x.id.Accept(nil)
	}
	if err := m.owns(c, x, q.Conn.QPN); err != nil {
		return err
	}
	old := x.uid
	x.uid = q.UID
	if err := x.id.Accept(paramsOf(&q.Conn)); err != nil {
		x.uid = old
		return err
	}
	return nil
}

func (m *channel) reject(c *command) error {
	q, _ := uapi.Parse[uapi.CMRejectCmd](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	return x.id.Reject(q.Private[:q.PrivateLen])
}

// address converts a path of the id's device to a program's address. On Ethernet, programs
// take a hop limit of 0 as it stands.
func (m *channel) address(id *cma.ID, p *qp.Path) uapi.AHAttr {
	if d := m.all.host.of(id.Device()); d != nil && d.Fabric != nil {
		return d.AH(p)
	}
	h := uapi.AHOf(p)
	h.GRH.HopLimit = max(h.GRH.HopLimit, 1)
	return h
}

func (m *channel) initQPAttr(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Arg > uint32(qp.Err) {
		return syscall.EINVAL
	}
	mask, a, err := x.id.InitQPAttr(qp.State(q.Arg))
	if err != nil {
		return err
	}
	r := uapi.QPAttrOf(mask, &a)
	if mask&qp.MaskAV != 0 {
		r.AH = m.address(x.id, &a.Path)
	}
	return c.respond(q.Response, uapi.Bytes(&r))
}

// The options of librdmacm.
const (
	optionID   = uapi.CMOptionID // level
	optionIB   = uapi.CMOptionIB
	optTOS     = uapi.CMOptionTOS
	optReuse   = uapi.CMOptionReuseAddr
	optAFOnly  = uapi.CMOptionAFOnly
	optTimeout = uapi.CMOptionAckTimeout
)

func (m *channel) setOption(c *command) error {
	q, _ := uapi.Parse[uapi.CMOption](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Len > 4096 {
		return syscall.EINVAL
	}
	b, err := c.Load(q.Value, int(q.Len))
	if err != nil {
		return err
	}
	if q.Level == optionIB {
		return syscall.ENOSYS // paths of a subnet administrator
	}
	number := func() (int32, error) {
		if len(b) != 4 {
			return 0, syscall.EINVAL
		}
		return int32(binary.NativeEndian.Uint32(b)), nil
	}
	switch {
	case q.Level != optionID:
		return syscall.ENOSYS
	case q.Name == optTOS && len(b) == 1:
		return x.id.SetTOS(b[0])
	case q.Name == optTimeout && len(b) == 1:
		return x.id.SetAckTimeout(b[0])
	case q.Name == optReuse:
		v, err := number()
		if err != nil {
			return err
		}
		return x.id.SetReuseAddr(v != 0)
	case q.Name == optAFOnly:
		v, err := number()
		if err != nil {
			return err
		}
		return x.id.SetAFOnly(v != 0)
	case q.Name <= optTimeout:
		return syscall.EINVAL
	}
	return syscall.ENOSYS
}
