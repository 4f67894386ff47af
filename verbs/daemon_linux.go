package verbs

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/host"
	"softrdma/internal/provider/daemon"
	"softrdma/internal/registry"
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
	d.attr.setAnnex(protocol)
	d.gids = gidTable(d.protocol, about.Addr.Addr(), nil, about.Name)
	if d.protocol == InfiniBand {
		d.fabric = drv
	}
	if d.protocol == IWARP {
		d.gids[0].GID = about.GID // the interface's GID; its other properties are unknown
	}
	s.reg.Add(&registry.Entry{Handle: d, Provider: drv})
	return d, nil
}
