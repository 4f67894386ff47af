// Package sa asks a subnet's administrator (IBTA 15.4) and a fabric's table of IP addresses
// on behalf of a device's connections.
//
// It owns the questions and the waits for answers. It changes neither the port nor its
// device.
package sa

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
)

// A Client is a cma.Fabric of a device on a port of a fabric. A device has one, because the
// administrator knows a port's membership in a multicast group, and not how many programs or
// queue pairs of the port it is for.
type Client struct {
	port *attach.Port
	dev  *adapter.Device
	wait time.Duration // for one answer

	life    context.Context // until Close
	end     context.CancelFunc
	unwatch func()

	mu     sync.Mutex
	groups map[groupKey]*group
}

var _ cma.Fabric = (*Client)(nil)

// An administrator answers within waitTime, unless the question or the answer is lost. Linux
// waits as long.
const (
	waitTime = 2 * time.Second
	attempts = 4
)

// New makes the client of a port's device. Close ends it.
func New(port *attach.Port, dev *adapter.Device) *Client {
	c := &Client{port: port, dev: dev, wait: waitTime, groups: make(map[groupKey]*group)}
	c.life, c.end = context.WithCancel(context.Background())
	c.unwatch = port.Watch(c.changed)
	return c
}

// Close ends all waits for answers. It neither leaves groups nor closes the device.
func (c *Client) Close() {
	c.unwatch()
	c.end()
}

// Addr implements cma.Fabric. A port without an IP address is known by its GID.
func (c *Client) Addr() netip.Addr { return fabric.Addr(c.port.Info()) }

// FindGID implements cma.Fabric: it asks the fabric, which has what ARP over IP over
// InfiniBand would answer.
func (c *Client) FindGID(ip netip.Addr) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(c.life, attempts*c.wait)
	defer cancel()
	return c.port.FindGID(ctx, ip)
}

// FindPath implements cma.Fabric. It asks for what Linux's rdma_cm asks for: one reversible
// path in the port's default partition.
func (c *Client) FindPath(to netip.Addr, service mad.ServiceID, class uint8) (*cma.FabricPath, error) {
	i := c.port.Info()
	key, _ := defaultPartition(i.PKeys)
	q := sa.PathRecord{
		ServiceID: uint64(service), SGID: mad.GIDFrom(fabric.Config(i).GIDs[0]), DGID: mad.GIDFrom(to),
		Reversible: true, NumPaths: 1, PKey: key, TrafficClass: class,
	}
	mask := uint64(sa.PathServiceID | sa.PathSGID | sa.PathDGID | sa.PathReversible | sa.PathNumPaths | sa.PathPKey | sa.PathTrafficClass)
	var r sa.PathRecord
	if err := c.ask(c.life, &question{mad.MethodGet, sa.AttrPathRecord, mask, &q}, &r); err != nil {
		return nil, fmt.Errorf("path to %v: %w", to, err)
	}
	return path(i, &r)
}

// path converts a record.
func path(i *attach.Info, r *sa.PathRecord) (*cma.FabricPath, error) {
	lid, mtu := ib.LID(r.DLID), mad.MTU(r.MTU.Value)
	if lid == 0 || lid.Multicast() || lid == ib.PermissiveLID || mtu.Bytes() == 0 {
		return nil, reason.Detail{Reason: reason.SAAnswer, Expected: 1, Found: uint64(r.DLID)}.Err()
	}
	p := &cma.FabricPath{
		Path: qp.Path{Dst: qp.LIDEndpoint(r.DLID), ServiceLevel: r.SL, PathBits: uint8(r.SLID & (1<<i.PortInfo.LMC - 1))},
		GID:  r.DGID.Addr(), PKey: r.PKey, Rate: r.Rate.Value, LifeTime: min(r.LifeTime.Value, maxLifeTime), MTU: mtu.Bytes(),
	}
	if r.HopLimit > 1 { // through a router
		p.Path.Dst = netip.AddrPortFrom(netip.AddrFrom16(r.DGID), r.DLID)
		p.Path.FlowLabel, p.Path.TrafficClass, p.Path.HopLimit = r.FlowLabel, r.TrafficClass, r.HopLimit
	}
	return p, nil
}

// maxLifeTime is the longest PacketLifeTime that leaves room for an acknowledge timeout.
const maxLifeTime = 30

// Partition implements cma.Fabric.
func (c *Client) Partition() (key, index uint16) { return defaultPartition(c.port.Info().PKeys) }

// defaultPartition is the port's key of the default partition, otherwise its first key, and the
// place of the key.
func defaultPartition(keys []uint16) (key, index uint16) {
	for i, k := range keys {
		if k&0x7fff == 0x7fff {
			return k, uint16(i)
		}
		if key == 0 && k != 0 {
			key, index = k, uint16(i)
		}
	}
	return key, index
}
