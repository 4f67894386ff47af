package verbs

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/host"
	"softrdma/internal/provider/daemon"
	"softrdma/internal/registry"
	"softrdma/internal/uverbs/uapi"
)

// openDaemon opens a device that a daemon serves.
func (s *Stack) openDaemon(name string, cfg *Config) (*Device, error) {
	if err := cfg.refuseDaemons(); err != nil {
		return nil, err
	}
	drv, err := daemon.Open(name)
	if err != nil {
		return nil, err
	}
	about, limits := &drv.Info, &drv.Info.Limits
	protocol := Protocol(about.Protocol)
	d := &Device{
		drv: drv, remote: true, unnamed: !about.Reasons, spin: cfg.spin(), guid: about.GUID, protocol: protocol,
		choice: host.Choice{
			Addr:      about.Addr,
			Interface: host.Interface{Name: about.Name, SpeedMbps: about.SpeedMbps},
			Why:       []string{fmt.Sprintf("The daemon on %s (process %d) serves it as %s.", about.Socket, about.PID, about.Name)},
		},
		state: func() host.PortState { return host.PortState{Up: drv.Up(), Addr: true} },
	}
	d.attr = DeviceAttr{
		Name: about.Name, Transport: protocol.transport(), NodeGUID: GUID(d.guid), SysImageGUID: GUID(binary.BigEndian.Uint64(limits.SysImageGUID[:])),
		MaxMRSize: limits.MaxMRSize, MaxQPWR: int(limits.MaxQPWR), MaxSGE: int(limits.MaxSGE), MaxInline: daemon.MaxInline,
		MaxCQE: int(limits.MaxCQE), MaxSRQWR: int(limits.MaxSRQWR), MaxQPRdAtom: int(limits.MaxQPRdAtom),
		MaxQPInitRdAtom: int(limits.MaxQPInitRdAtom), AtomicCap: "IBV_ATOMIC_HCA", PhysPorts: 1, MaxPKeys: int(limits.MaxPKeys),
	}
	d.gids = gidTable(d.protocol, d.choice)
	if d.protocol == InfiniBand {
		d.fabric = daemonPort{drv}
	}
	if d.protocol == IWARP {
		d.gids[0].GID = about.GID // the interface's, of which nothing else is known
	}
	s.reg.Add(&registry.Entry{Handle: d, Provider: drv})
	return d, nil
}

// daemonPort is a port of a fabric that a daemon has.
type daemonPort struct{ dev *daemon.Device }

func (p daemonPort) query() (PortAttr, []GID) {
	q, t, err := p.dev.FabricPort()
	if err != nil { // the daemon has ended
		return PortAttr{State: PortDown, PKeys: []uint16{0}, LinkLayer: InfiniBand.String()}, []GID{p.dev.Info.GID}
	}
	gids := make([]GID, max(1, min(int(q.GIDTblLen), len(t.GIDs))))
	for i := range gids {
		gids[i] = t.GIDs[i]
	}
	keys := t.PKeys[:max(1, min(int(q.PKeyTblLen), len(t.PKeys)))]
	return PortAttr{
		Active: q.State == uint8(PortActive), State: PortState(q.State), MaxMTU: uapi.MTU(q.MaxMTU), ActiveMTU: uapi.MTU(q.ActiveMTU),
		SpeedMbps: daemon.Speed(&q), PKey: keys[0], PKeys: keys, LinkLayer: InfiniBand.String(),
		LID: q.LID, LMC: q.LMC, SMLID: q.SMLID, SMSL: q.SMSL, SubnetPrefix: binary.BigEndian.Uint64(gids[0][:8]),
	}, gids
}
