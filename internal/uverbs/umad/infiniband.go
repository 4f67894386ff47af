//go:build linux

package umad

import (
	"softrdma/internal/adapter/gsi"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/ib"
)

// fabricPort is the port of a device of an InfiniBand fabric. Queue pair 1 is the device's.
// Queue pair 0 is the port's: its datagrams go by the agents of the node, which forward
// directed routes.
type fabricPort struct {
	services
	fabric *attach.Port
}

// InfiniBand returns the port of a device of an InfiniBand fabric.
func InfiniBand(d *device.Device) Port { return fabricPort{services{d}, d.Fabric} }

func (p fabricPort) SMI() bool           { return true }
func (p fabricPort) SetSM(on bool) error { return p.fabric.SetSM(on) }

// Send implements Port.
func (p fabricPort) Send(m *MAD) error {
	if m.QPN == gsi.QPN {
		return p.services.Send(m)
	}
	return p.fabric.SendMAD(&attach.Departure{DLID: m.Peer.LID, SL: m.Peer.SL, MAD: m.Data})
}

// Handle implements Port.
func (p fabricPort) Handle(h Handler) {
	p.services.Handle(h)
	p.fabric.HandleMAD(func(in *attach.Arrival) bool {
		if h == nil {
			return false
		}
		m := MAD{PeerQPN: in.SourceQPN, Data: *in.MAD, Peer: Address{LID: in.SLID, SL: in.SL}}
		if ib.LID(in.DLID) != ib.PermissiveLID {
			m.Peer.PathBits = uint8(in.DLID & (1<<p.fabric.Info().PortInfo.LMC - 1))
		}
		taken, dropped := h(&m)
		if dropped.Reason != reason.None {
			p.dev.Adapter.Trace.Refuse(0, dropped)
		}
		return taken
	})
}
