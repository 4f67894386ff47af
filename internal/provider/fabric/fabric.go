// Package fabric makes an adapter on a port of an InfiniBand fabric that another process
// runs. What the subnet manager sets at the port reaches the adapter, and programs as
// asynchronous events.
//
// It sends and receives nothing: packets are the adapter's, and the port's link carries them.
package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/frame"
	"softrdma/internal/frame/infiniband"
	"softrdma/internal/machine"
	"softrdma/internal/provider"
	"softrdma/internal/provider/local"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
	"softrdma/internal/wire/mad/smp"
)

// A Device is the adapter of a port.
type Device struct {
	local.Device
	Port *attach.Port

	follower
	unwatch func()
}

// mostSpin limits how long the adapter's goroutine looks for packets before it sleeps. The
// fabric's process has to run before packets come, and may need the processor.
const mostSpin = 5 * time.Microsecond

// Open attaches to a port, or to a share of it if that is not nil, and makes an adapter of c with
// the port's network, tables and GUID. The address is as for attach.Open.
func Open(ctx context.Context, address string, share *attach.Share, c adapter.Config) (*Device, error) {
	port, err := attach.OpenShare(ctx, address, share)
	if err != nil {
		return nil, err
	}
	info := port.Info()
	p := Config(info)
	c.Networks, c.MTU, c.PKeys = []frame.Network{infiniband.New(port.Link(), p.Port)}, p.MTU, p.PKeys
	if share != nil {
		c.Share = steering.Share{First: share.Lane, Lanes: 1, Of: share.Of}
	}
	c.GUID, c.Spin = info.NodeInfo.NodeGUID, min(c.Spin, mostSpin)
	c.Violated = func(v *machine.Violation) {
		port.Violated(&attach.Violation{QKey: v.QKey, Key: v.Key, SLID: v.SLID, DLID: v.DLID, SL: v.LRH.SL, SourceQPN: v.SourceQPN,
			DestinationQPN: v.QPN, Global: v.LRH.Global, Source: v.Source, Destination: v.Target})
	}
	d := &Device{Device: local.Device{Device: adapter.Open(c)}, Port: port}
	d.follower = follower{info: port.Info, configure: d.Configure}
	d.unwatch = port.Watch(func(_, _ *attach.Info, e attach.Event) { d.changed(e) })
	d.follow() // the port may have changed before Watch
	return d, nil
}

// A follower keeps an adapter's configuration equal to that of its port.
type follower struct {
	mu        sync.Mutex // from reading what the port is until the adapter has it
	info      func() *attach.Info
	configure func(*adapter.PortConfig)
	followed  *attach.Info // what the adapter has
}

// follow gives the adapter the present configuration of the port, and returns it. Several goroutines may call it.
// A program that has seen an active port may send at once, so it gets nothing that the adapter
// does not have.
func (f *follower) follow() *attach.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.info(); i != f.followed {
		f.configure(Config(i))
		f.followed = i
	}
	return f.followed
}

// Close implements provider.Device. It also ends the attachment. What happens at the port then
// is no event of the device.
func (d *Device) Close() error {
	d.unwatch()
	return errors.Join(d.Device.Close(), d.Port.Close())
}

// events are the asynchronous events of changes (IBTA 11.6.3).
var events = map[attach.Event]machine.Event{
	attach.PortActive: machine.EventPortActive, attach.PortError: machine.EventPortErr, attach.LIDChanged: machine.EventLIDChange,
	attach.ManagerChanged: machine.EventSMChange, attach.ClientReregister: machine.EventClientReregister,
	attach.PartitionsChanged: machine.EventPKeyChange, attach.GUIDsChanged: machine.EventGIDChange, attach.PrefixChanged: machine.EventGIDChange,
}

func (d *Device) changed(e attach.Event) {
	d.follow()
	if t, ok := events[e]; ok {
		d.Raise(t, nil, reason.Detail{})
	}
}

// Active reports whether the port carries packets of queue pairs.
func (d *Device) Active() bool { return d.follow().PortInfo.State == smp.PortActive }

// FabricPort implements provider.Fabric.
func (d *Device) FabricPort() provider.FabricPort {
	i := d.follow()
	q, c := &i.PortInfo, Config(i)
	p := provider.FabricPort{
		State: uint8(q.State), MaxMTU: q.MTUCap.Bytes(), ActiveMTU: c.MTU, SpeedMbps: SpeedMbps(i), LID: q.LID, LMC: q.LMC,
		SMLID: q.MasterSMLID, SMSL: q.MasterSMSL, SubnetPrefix: Prefix(i), GIDs: make([][16]byte, len(c.GIDs)), PKeys: c.PKeys,
	}
	for n, g := range c.GIDs {
		if g.IsValid() {
			p.GIDs[n] = g.As16()
		}
	}
	return p
}

// Addr is the port's IP address by the table of the fabric, or its GID if it has none.
func Addr(i *attach.Info) netip.Addr {
	if len(i.Addrs) > 0 {
		return i.Addrs[0]
	}
	return Config(i).GIDs[0]
}

// leastMTU is the smallest MTU of a port in bytes.
const leastMTU = 256

// Config returns the adapter's configuration for a port.
func Config(i *attach.Info) *adapter.PortConfig {
	p := &adapter.PortConfig{MTU: i.PortInfo.NeighborMTU.Bytes(), PKeys: make([]uint16, max(int(i.NodeInfo.PartitionCap), len(i.PKeys), 1))}
	copy(p.PKeys, i.PKeys)
	if p.MTU == 0 { // no subnet manager has set it
		p.MTU = max(i.PortInfo.MTUCap.Bytes(), leastMTU)
	}
	p.LID, p.LMC = i.PortInfo.LID, i.PortInfo.LMC
	guids := i.GUIDs
	if len(guids) == 0 || guids[0] == 0 {
		guids = []uint64{i.NodeInfo.PortGUID}
	}
	p.GIDs = make([]netip.Addr, len(guids))
	for n, guid := range guids {
		if guid != 0 {
			p.GIDs[n] = gid(Prefix(i), guid)
		}
	}
	return p
}

// defaultPrefix is the GID prefix of a port that no subnet manager has given another one.
const defaultPrefix = 0xfe80 << 48

// Prefix is the upper half of the port's GIDs.
func Prefix(i *attach.Info) uint64 {
	if i.PortInfo.GIDPrefix == 0 {
		return defaultPrefix
	}
	return i.PortInfo.GIDPrefix
}

func gid(prefix, guid uint64) netip.Addr {
	var g [16]byte
	binary.BigEndian.PutUint64(g[:], prefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return netip.AddrFrom16(g)
}

// SpeedMbps is the rate of the port's link in Mbit/s.
func SpeedMbps(i *attach.Info) int {
	q := &i.PortInfo
	return int(smp.LaneRate(q.SpeedActive, q.ExtSpeedActive) * uint64(q.WidthActive.Lanes()) / 1e6)
}
