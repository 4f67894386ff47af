package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

func (a *subnetAgent) getNodeDescription(_ *Arrival, _ *smp.Packet, data *[smp.DataLen]byte) uint16 {
	a.description.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) getNodeInfo(in *Arrival, _ *smp.Packet, data *[smp.DataLen]byte) uint16 {
	n := a.NodeInfo(in.Port)
	n.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) getSwitchInfo(_ *Arrival, _ *smp.Packet, data *[smp.DataLen]byte) uint16 {
	a.sw.Put(data)
	return mad.StatusOK
}

// setSwitchInfo sets the fields that IBTA 14.2.5.4 lets a manager set.
func (a *subnetAgent) setSwitchInfo(_ time.Duration, _ *Arrival, p *smp.Packet) uint16 {
	var s smp.SwitchInfo
	s.Parse(&p.Data)
	if s.LinearTop >= a.sw.LinearCap && s.LinearTop != a.sw.LinearTop || !a.multicastTop(s.MulticastTop) {
		return mad.StatusInvalid
	}
	a.sw.LinearTop, a.sw.MulticastTop, a.sw.LifeTime = s.LinearTop, s.MulticastTop, s.LifeTime
	a.sw.DefaultPort = s.DefaultPort
	a.sw.DefaultMulticastPrimary, a.sw.DefaultMulticastNotPrimary = s.DefaultMulticastPrimary, s.DefaultMulticastNotPrimary
	if s.PortStateChange { // a one clears
		a.sw.PortStateChange = false
	}
	a.node.ConfigureSwitch(&hardware.SwitchConfig{
		LinearTop: s.LinearTop, MulticastTop: s.MulticastTop, LifeTime: lifetime(s.LifeTime),
		DefaultMulticastPrimary: s.DefaultMulticastPrimary, DefaultMulticastNotPrimary: s.DefaultMulticastNotPrimary,
	})
	return mad.StatusOK
}

// firstMulticast is the first multicast LID (IBTA 4.1.3).
const firstMulticast = 0xc000

// multicastTop reports whether a highest multicast LID is one of the table's. 0
// means all, the LID before the first none.
func (a *subnetAgent) multicastTop(lid uint16) bool {
	return lid == 0 || lid >= firstMulticast-1 && int(lid) < firstMulticast+int(a.sw.MulticastCap)
}

// lifetime returns the time of a code of 5 bits (IBTA 14.2.5.4 and 14.2.5.6).
func lifetime(code uint8) time.Duration {
	if code > 19 {
		return hardware.Unlimited
	}
	return interval(code)
}

// interval returns 4.096 µs times 2 to the power of code.
func interval(code uint8) time.Duration { return 4096 * time.Nanosecond << min(code, 31) }

func (a *subnetAgent) getGUIDInfo(in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	e := &a.ends[a.endPort(in.Port)]
	if p.Modifier >= uint32(len(e.guids)+7)/8 {
		return mad.StatusInvalid
	}
	var g smp.GUIDInfo
	copy(g[:], e.guids[8*p.Modifier:])
	g.Put(data)
	return mad.StatusOK
}

// setGUIDInfo sets all GUIDs of a block but the first of block 0 (IBTA 14.2.5.5).
func (a *subnetAgent) setGUIDInfo(_ time.Duration, in *Arrival, p *smp.Packet) uint16 {
	n := a.endPort(in.Port)
	e := &a.ends[n]
	if p.Modifier >= uint32(len(e.guids)+7)/8 {
		return mad.StatusInvalid
	}
	var g smp.GUIDInfo
	g.Parse(&p.Data)
	first := e.guids[0]
	copy(e.guids[8*p.Modifier:], g[:])
	e.guids[0] = first
	a.notify(n, GUIDsChanged)
	return mad.StatusOK
}
