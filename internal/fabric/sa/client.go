// Package sa asks a subnet's administrator (IBTA 15.4) and a fabric's table of IP addresses
// on behalf of a device's connections.
//
// It owns the questions and the waits for answers. It changes neither the port nor its
// device.
package sa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/gsi"
	"softrdma/internal/cma"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
)

// A Client is a cma.Fabric of a device on a port of a fabric.
type Client struct {
	port *attach.Port
	dev  *adapter.Device
	wait time.Duration // for one answer
}

var _ cma.Fabric = (*Client)(nil)

// An administrator answers within waitTime, unless the question or the answer is lost. Linux
// waits as long.
const (
	waitTime = 2 * time.Second
	attempts = 4
)

// New makes the client of a port's device.
func New(port *attach.Port, dev *adapter.Device) *Client { return &Client{port, dev, waitTime} }

// Addr implements cma.Fabric. A port without an IP address is known by its GID.
func (c *Client) Addr() netip.Addr { return addr(c.port.Info()) }

func addr(i *attach.Info) netip.Addr {
	if len(i.Addrs) > 0 {
		return i.Addrs[0]
	}
	return fabric.Config(i).GIDs[0]
}

// FindGID implements cma.Fabric: it asks the fabric, which has what ARP over IP over
// InfiniBand would answer.
func (c *Client) FindGID(ip netip.Addr) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), attempts*c.wait)
	defer cancel()
	return attach.FindGID(ctx, c.port.Info().Fabric, ip)
}

// FindPath implements cma.Fabric. It asks for what Linux's rdma_cm asks for: one reversible
// path in the port's default partition.
func (c *Client) FindPath(to netip.Addr, service mad.ServiceID, class uint8) (*cma.FabricPath, error) {
	i := c.port.Info()
	q := sa.PathRecord{
		ServiceID: uint64(service), SGID: mad.GIDFrom(fabric.Config(i).GIDs[0]), DGID: mad.GIDFrom(to),
		Reversible: true, NumPaths: 1, PKey: defaultPartition(i.PKeys), TrafficClass: class,
	}
	mask := uint64(sa.PathServiceID | sa.PathSGID | sa.PathDGID | sa.PathReversible | sa.PathNumPaths | sa.PathPKey | sa.PathTrafficClass)
	var r sa.PathRecord
	if err := c.get(sa.AttrPathRecord, mask, &q, &r); err != nil {
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

// defaultPartition is the port's key of the default partition, otherwise its first key.
func defaultPartition(keys []uint16) uint16 {
	first := uint16(0)
	for _, k := range keys {
		if k&0x7fff == 0x7fff {
			return k
		}
		if first == 0 {
			first = k
		}
	}
	return first
}

// get asks for one record until an answer comes.
func (c *Client) get(a mad.AttributeID, mask uint64, q, r sa.Record) error {
	h := sa.Header{
		MAD: mad.Header{
			BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: mad.MethodGet, TID: transaction(), Attribute: a,
		},
		ComponentMask: mask,
	}
	answers := make(chan [mad.Len]byte, 1)
	if err := c.await(h.MAD.TID, answers); err != nil {
		return err
	}
	defer c.forget(h.MAD.TID)
	var lid uint16
	for range attempts {
		i := c.port.Info()
		if lid = i.PortInfo.MasterSMLID; lid == 0 || !i.Up {
			return reason.Detail{Reason: reason.SANone, Expected: 1}.Err()
		}
		d := &gsi.Datagram{Path: qp.Path{Dst: qp.LIDEndpoint(lid), ServiceLevel: i.PortInfo.MasterSMSL}, QPN: gsi.QPN}
		h.Put(&d.MAD)
		q.Put(sa.Data(&d.MAD))
		if err := c.dev.SendMAD(d); err != nil {
			return err
		}
		select {
		case m := <-answers:
			h.Parse(&m)
			if h.MAD.Status != 0 {
				return reason.Detail{Reason: reason.SAStatus, Expected: 0, Found: uint64(h.MAD.Status)}.Err()
			}
			r.Parse(sa.Data(&m))
			return nil
		case <-time.After(c.wait):
		}
	}
	return reason.Detail{Reason: reason.SATimeout, Expected: uint64((attempts * c.wait).Milliseconds()), Found: uint64(lid)}.Err()
}

// await passes the answer to a transaction on.
func (c *Client) await(tid uint64, answers chan<- [mad.Len]byte) error {
	return c.dev.GSI(func(g *gsi.GSI, _ time.Duration) {
		g.Await(tid, func(d *gsi.Datagram) {
			select {
			case answers <- d.MAD:
			default: // a duplicate
			}
		})
	})
}

func (c *Client) forget(tid uint64) {
	err := c.dev.GSI(func(g *gsi.GSI, _ time.Duration) { g.Forget(tid) })
	if err != nil && !errors.Is(err, adapter.ErrClosed) {
		panic(err) // await has succeeded on the same device
	}
}

// transaction draws a transaction ID that nobody else has.
func transaction() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.BigEndian.Uint64(b[:])
}
