//go:build linux

package umad

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/uverbs/uapi"
	"softrdma/internal/wire/mad"
)

// roce is the port of a RoCE device. It has no queue pair 0 (annex A16).
type roce struct{ dev *device.Device }

// RoCE returns the port of a RoCE device.
func RoCE(d *device.Device) Port { return roce{d} }

func (p roce) Device() string   { return p.dev.Name }
func (p roce) Number() int      { return 1 }
func (p roce) SMI() bool        { return false }
func (p roce) SetSM(bool) error { return syscall.EOPNOTSUPP }

// Send implements Port. The peer's UDP port is RoCE's, because programs know no ports.
func (p roce) Send(m *MAD) error {
	a := &m.Peer
	h := uapi.AHAttr{SL: a.SL, PortNum: 1, GRH: uapi.GlobalRoute{
		DGID: a.GID, FlowLabel: a.FlowLabel, SGIDIndex: a.GIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass,
	}}
	if a.Global {
		h.IsGlobal = 1
	}
	path, err := p.dev.Path(&h, 0)
	if err != nil {
		return err
	}
	var header mad.Header
	header.Parse(&m.Data)
	err = p.dev.Adapter.SendMAD(&gsi.Datagram{Path: path, QPN: m.PeerQPN, MAD: m.Data, Reply: response(&header)})
	if full := (*reason.Error)(nil); errors.As(err, &full) && full.Detail.Reason == reason.MADSendQueue {
		return fmt.Errorf("%w (%w)", err, syscall.ENOBUFS)
	}
	return err
}

// Handle implements Port.
func (p roce) Handle(h Handler) {
	var handler gsi.Handler
	if h != nil {
		handler = func(d *gsi.Datagram) (bool, reason.Detail) {
			m := MAD{QPN: gsi.QPN, PeerQPN: d.QPN, Data: d.MAD, Peer: Address{
				Global: true, GID: mad.GIDFrom(d.Path.Dst.Addr()), HopLimit: d.Path.HopLimit, TrafficClass: d.Path.TrafficClass,
			}}
			return h(&m)
		}
	}
	_ = p.dev.Adapter.GSI(func(g *gsi.GSI, _ time.Duration) { g.Handler = handler }) // fails if the device is closed
}
