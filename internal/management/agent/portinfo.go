package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// portOf returns the port that a modifier of PortInfo names, and reports
// whether the node has it (IBTA 14.2.5.6). The uppermost bit announces a
// manager that knows extended speeds.
func (a *subnetAgent) portOf(in *Arrival, modifier uint32) (int, bool) {
	n := int(modifier & 0xff)
	if modifier&0x7fffff00 != 0 || n > a.config.NumPorts {
		return 0, false
	}
	if n == 0 && !a.isSwitch() {
		n = in.Port
	}
	return n, true
}

func (a *subnetAgent) getPortInfo(in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	n, ok := a.portOf(in, p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	info := a.portInfo(n)
	info.LocalPort = uint8(in.Port)
	// IBTA 14.2.4.1 hides the key from a Get. A Set has passed the check with the previous key, and
	// may have written this one: opensm continues with the key of the answer.
	if e := &a.ends[a.endPort(n)]; p.Method == mad.MethodGet && !e.shows(p.MKey) {
		info.MKey = 0
	}
	info.Put(data)
	return mad.StatusOK
}

// getPortInfoExtended answers zeros: links have no modes of forward error correction.
func (a *subnetAgent) getPortInfoExtended(in *Arrival, p *smp.Packet, _ *[smp.DataLen]byte) uint16 {
	if _, ok := a.portOf(in, p.Modifier); !ok {
		return mad.StatusInvalid
	}
	return mad.StatusOK
}

// portInfo returns all that PortInfo says of a port.
func (s *settings) portInfo(n int) smp.PortInfo {
	c, q := &s.config, &s.ports[n]
	info := smp.PortInfo{
		WidthSupported: c.Width, WidthEnabled: q.widthEnabled,
		SpeedSupported: c.Speed, SpeedEnabled: q.speedEnabled,
		ExtSpeedSupported: c.ExtSpeed, ExtSpeedEnabled: q.extEnabled,
		DownDefault: q.downDefault, NeighborMTU: q.neighborMTU, MTUCap: c.MTU, VLCap: c.VLs, OperationalVLs: q.vls,
		VLHighLimit: q.config.HighLimit, VLArbitrationHighCap: c.Arbitration, VLArbitrationLowCap: c.Arbitration,
		InitTypeReply: q.initTypeReply, VLStallCount: q.stallCount, HOQLife: q.hoqLife,
		EnforceInbound: q.config.EnforceInbound, EnforceOutbound: q.config.EnforceOutbound,
		FilterRawInbound: q.config.FilterRawInbound, FilterRawOutbound: q.config.FilterRawOutbound,
		PKeyViolations: q.pkeyViolations, LocalPhyErrors: q.localPhyErrors, OverrunErrors: q.overrunErrors,
	}
	if s.isSwitch() && n == 0 {
		// The management port has no link. It is always up.
		info.State, info.Physical = smp.PortActive, smp.PhysicalLinkUp
		info.WidthActive, info.SpeedActive, info.ExtSpeedActive = c.Width, c.Speed, c.ExtSpeed
	} else {
		l := s.node.Link(n)
		info.State, info.Physical = l.State, l.Physical
		info.WidthActive, info.SpeedActive, info.ExtSpeedActive = l.Width, l.Speed, l.ExtSpeed
	}
	if s.isSwitch() && n > 0 {
		return info // the rest belongs to port 0
	}
	e := &s.ends[n]
	info.MKey, info.MKeyProtect, info.MKeyLeasePeriod = e.mkey, e.protect, e.leasePeriod
	info.GIDPrefix, info.LID, info.LMC = e.prefix, e.lid, e.lmc
	info.MasterSMLID, info.MasterSMSL, info.SubnetTimeout = e.smLID, e.smSL, e.subnetTimeout
	info.CapabilityMask2 = smp.Cap2PortInfoExtended
	info.CapabilityMask, info.McastPKeyTrapSuppression = e.capability, e.trapSuppression
	info.MKeyViolations, info.PKeyViolations, info.QKeyViolations = e.mkeyViolations, e.pkeyViolations, e.qkeyViolations
	info.GUIDCap, info.RespTimeValue = uint8(len(e.guids)), responseTime
	return info
}

// responseTime is the RespTimeValue of the agents: 1 ms.
const responseTime = 8

// setPortInfo checks all fields before it changes one.
func (a *subnetAgent) setPortInfo(now time.Duration, in *Arrival, p *smp.Packet) uint16 {
	n, ok := a.portOf(in, p.Modifier)
	if !ok || !a.isSwitch() && n != in.Port { // the M_Key that was checked is that of the other port
		return mad.StatusInvalid
	}
	var info smp.PortInfo
	info.Parse(&p.Data)
	end, link := !a.isSwitch() || n == 0, !a.isSwitch() || n > 0
	if end && !a.validEnd(n, &info) || link && !a.validLink(n, &info) || !link && info.State != smp.PortNoChange && info.State != smp.PortActive {
		return mad.StatusInvalid
	}
	if end {
		a.setEnd(n, &info)
	}
	if link {
		a.setLink(n, &info)
	}
	a.configure(n)
	if link && !a.command(now, in, n, &info) {
		return mad.StatusInvalid
	}
	return mad.StatusOK
}

// validEnd reports whether the fields of an end port may be set. LIDs that a
// Set leaves as they are need not be valid: tools write back what they read.
func (a *subnetAgent) validEnd(n int, info *smp.PortInfo) bool {
	e := &a.ends[n]
	unicast := func(lid, old uint16) bool { return lid > 0 && lid < firstMulticast || lid == old }
	return unicast(info.LID, e.lid) && unicast(info.MasterSMLID, e.smLID) &&
		(info.LMC == 0 || !a.isSwitch() || a.config.EnhancedPort0) // IBTA 14.2.5.6: base port 0 has one LID
}

// validLink reports whether the fields of a link may be set (IBTA 14.2.5.6).
func (a *subnetAgent) validLink(n int, info *smp.PortInfo) bool {
	c, q := &a.config, &a.ports[n]
	width := info.WidthEnabled == smp.WidthAsSupported || info.WidthEnabled&^c.Width == 0
	speed := info.SpeedEnabled == smp.SpeedAsSupported || info.SpeedEnabled&^c.Speed == 0
	ext := info.ExtSpeedEnabled == smp.ExtSpeedAsSupported || info.ExtSpeedEnabled == smp.ExtSpeedNone || info.ExtSpeedEnabled&^c.ExtSpeed == 0
	mtu := info.NeighborMTU == q.neighborMTU || info.NeighborMTU >= 1 && info.NeighborMTU <= c.MTU
	return width && speed && ext && mtu && info.OperationalVLs <= c.VLs && info.DownDefault <= smp.PhysicalPolling && a.validState(n, info)
}

// validState reports whether the commands for the states are defined and
// allowed now. A physical one needs a logical one of down or none.
func (a *subnetAgent) validState(n int, info *smp.PortInfo) bool {
	now := a.node.Link(n).State
	switch info.State {
	case smp.PortNoChange, smp.PortDown:
		return info.Physical <= smp.PhysicalDisabled
	case smp.PortArmed:
		return info.Physical == 0 && (now == smp.PortInit || now == smp.PortArmed)
	case smp.PortActive:
		return info.Physical == 0 && (now == smp.PortArmed || now == smp.PortActive)
	}
	return false
}

func (a *subnetAgent) setEnd(n int, info *smp.PortInfo) {
	e := &a.ends[n]
	old := *e
	e.mkey, e.protect, e.leasePeriod = info.MKey, info.MKeyProtect, info.MKeyLeasePeriod
	e.prefix, e.lid, e.lmc = info.GIDPrefix, info.LID, info.LMC
	e.smLID, e.smSL, e.subnetTimeout = info.MasterSMLID, info.MasterSMSL, info.SubnetTimeout
	e.trapSuppression = info.McastPKeyTrapSuppression
	// A zero clears a counter of violations, other values leave it.
	if info.MKeyViolations == 0 {
		e.mkeyViolations = 0
	}
	if info.PKeyViolations == 0 {
		e.pkeyViolations = 0
	}
	if info.QKeyViolations == 0 {
		e.qkeyViolations = 0
	}
	for _, c := range []struct {
		changed bool
		event   Event
	}{
		{e.lid != old.lid || e.lmc != old.lmc, LIDChanged},
		{e.smLID != old.smLID || e.smSL != old.smSL, ManagerChanged},
		{e.prefix != old.prefix, PrefixChanged},
		{info.ClientReregister, ClientReregister},
	} {
		if c.changed {
			a.notify(n, c.event)
		}
	}
}

func (a *subnetAgent) setLink(n int, info *smp.PortInfo) {
	c, q := &a.config, &a.ports[n]
	q.widthEnabled = enabled(info.WidthEnabled, q.widthEnabled, c.Width, smp.WidthAsSupported)
	q.speedEnabled = enabled(info.SpeedEnabled, q.speedEnabled, c.Speed, smp.SpeedAsSupported)
	q.extEnabled = enabled(info.ExtSpeedEnabled, q.extEnabled, c.ExtSpeed, smp.ExtSpeedAsSupported)
	if info.ExtSpeedEnabled == smp.ExtSpeedNone {
		q.extEnabled = smp.ExtSpeedNone
	}
	if info.DownDefault != smp.PhysicalNoChange {
		q.downDefault = info.DownDefault
	}
	q.neighborMTU = info.NeighborMTU
	if info.OperationalVLs != smp.VLsNoChange {
		q.vls = info.OperationalVLs
	}
	q.config.HighLimit, q.stallCount, q.hoqLife = info.VLHighLimit, info.VLStallCount, info.HOQLife
	q.localPhyErrors, q.overrunErrors, q.initTypeReply = info.LocalPhyErrors, info.OverrunErrors, info.InitTypeReply
	if !a.isSwitch() {
		return
	}
	// An adapter always checks partitions: these fields are a switch's.
	q.config.EnforceInbound = info.EnforceInbound && a.sw.EnforceInbound
	q.config.EnforceOutbound = info.EnforceOutbound && a.sw.EnforceOutbound
	q.config.FilterRawInbound, q.config.FilterRawOutbound = info.FilterRawInbound, info.FilterRawOutbound
	if info.PKeyViolations == 0 {
		q.pkeyViolations = 0
	}
}

// enabled returns the new value of a field of enabled widths or speeds.
func enabled[T smp.Width | smp.Speed | smp.ExtSpeed](set, old, supported, all T) T {
	switch set {
	case 0:
		return old
	case all:
		return supported
	}
	return set
}

// configure tells the node what the port is set to.
func (a *subnetAgent) configure(n int) {
	q := &a.ports[n]
	c := &q.config
	c.MTU, c.VLs, c.HOQLife, c.StallCount = q.neighborMTU.Bytes(), q.vls.Count(), lifetime(q.hoqLife), q.stallCount
	c.Width, c.Speed, c.DownDefault = q.widthEnabled, q.speedEnabled, q.downDefault
	c.ExtSpeed, c.PhysicalErrors = q.extEnabled, q.localPhyErrors
	if q.extEnabled == smp.ExtSpeedNone {
		c.ExtSpeed = 0
	}
	if !a.isSwitch() || n == 0 {
		c.LID, c.LMC = a.ends[n].lid, a.ends[n].lmc
	}
	a.node.Configure(n, c)
}

// command performs the commands of a Set, which validState allowed.
func (a *subnetAgent) command(now time.Duration, in *Arrival, n int, info *smp.PortInfo) bool {
	switch {
	case info.State == smp.PortArmed || info.State == smp.PortActive:
		if a.node.Link(n).State == info.State {
			return true
		}
		if info.State == smp.PortArmed {
			return a.node.SetLink(n, hardware.LinkArm)
		}
		return a.node.SetLink(n, hardware.LinkActivate)
	case info.Physical == smp.PhysicalSleep:
		return a.takeDown(now, in, n, hardware.LinkSleep)
	case info.Physical == smp.PhysicalPolling:
		return a.takeDown(now, in, n, hardware.LinkPoll)
	case info.Physical == smp.PhysicalDisabled:
		return a.takeDown(now, in, n, hardware.LinkDisable)
	case info.State == smp.PortDown:
		return a.takeDown(now, in, n, hardware.LinkDown)
	}
	return true
}
