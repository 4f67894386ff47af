//go:build linux

package umad

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/adapter/gsi"
	management "softrdma/internal/management/agent"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/uapi"
)

// services is a port with queue pair 1 alone, that of its device.
type services struct{ dev *device.Device }

// A rocePort is the port of a RoCE device. It has no queue pair 0 (annex A16). Requests of performance
// management without an address are for the port itself.
type rocePort struct {
	services
	started time.Time
	handler atomic.Pointer[Handler]

	counters func() *hardware.Counters

	mu    sync.Mutex
	agent *management.PortAgent
}

// RoCE returns the port of a RoCE device, with what reads its counters.
func RoCE(d *device.Device, counters func() *hardware.Counters) Port {
	return &rocePort{services: services{d}, started: time.Now(), counters: counters, agent: management.NewPortAgent()}
}

// Send implements Port.
func (p *rocePort) Send(m *MAD) error {
	if m.QPN != gsi.QPN {
		return client.Refuse(syscall.EPROTONOSUPPORT, reason.MADQueuePair, gsi.QPN, uint64(m.QPN))
	}
	if m.Peer.Global || m.Peer.LID != 0 {
		return p.services.Send(m)
	}
	reply, c := *m, p.counters()
	p.mu.Lock()
	answered := p.agent.Answer(time.Since(p.started), c, &reply.Data)
	p.mu.Unlock()
	if !answered {
		return p.services.Send(m)
	}
	if h := p.handler.Load(); h != nil {
		if _, dropped := (*h)(&reply); dropped.Reason != reason.None {
			p.dev.Adapter.Trace.Refuse(0, dropped)
		}
	}
	return nil
}

// Handle implements Port.
func (p *rocePort) Handle(h Handler) {
	p.services.Handle(h)
	if h == nil {
		p.handler.Store(nil)
		return
	}
	p.handler.Store(&h)
}

func (p services) Device() string   { return p.dev.Name }
func (p services) Number() int      { return 1 }
func (p services) SMI() bool        { return false }
func (p services) SetSM(bool) error { return syscall.EOPNOTSUPP }

// Send implements Port. The UDP port of a RoCE v2 peer is RoCE's, because programs know no
// ports.
func (p services) Send(m *MAD) error {
	a := &m.Peer
	h := uapi.AHAttr{DLID: a.LID, SL: a.SL, SrcPathBits: a.PathBits, PortNum: 1, GRH: uapi.GlobalRoute{
		DGID: a.GID, FlowLabel: a.FlowLabel, SGIDIndex: a.GIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass,
	}}
	if a.Global {
		h.IsGlobal = 1
	}
	path, err := p.dev.Path(&h)
	if err != nil {
		return err
	}
	var header mad.Header
	header.Parse(&m.Data)
	err = p.dev.Adapter.SendMAD(&gsi.Datagram{Path: path, PKeyIndex: a.PKeyIndex, QPN: m.PeerQPN, MAD: m.Data, Reply: response(&header)})
	if full := (*reason.Error)(nil); errors.As(err, &full) && full.Detail.Reason == reason.MADSendQueue {
		return fmt.Errorf("%w (%w)", err, syscall.ENOBUFS)
	}
	return err
}

// Handle implements Port.
func (p services) Handle(h Handler) {
	var handler gsi.Handler
	if h != nil {
		handler = func(d *gsi.Datagram) (bool, reason.Detail) {
			from := p.dev.AH(&d.Path)
			return h(&MAD{QPN: gsi.QPN, PeerQPN: d.QPN, Data: d.MAD, Peer: Address{
				LID: from.DLID, SL: from.SL, PathBits: from.SrcPathBits, PKeyIndex: d.PKeyIndex, Global: from.IsGlobal != 0,
				GID: from.GRH.DGID, HopLimit: from.GRH.HopLimit, TrafficClass: from.GRH.TrafficClass,
			}})
		}
	}
	_ = p.dev.Adapter.GSI(func(g *gsi.GSI, _ time.Duration) { g.Handler = handler }) // fails if the device is closed
}
