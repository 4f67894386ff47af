package agent

import (
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// answer performs a Get or Set and returns the status of the response. The
// packet's data becomes the response's. A Set that is refused changes nothing.
func (a *subnetAgent) answer(now time.Duration, in *Arrival, p *smp.Packet) uint16 {
	if p.ClassVersion != smp.ClassVersion {
		return mad.StatusVersion
	}
	if p.Method != mad.MethodGet && p.Method != mad.MethodSet {
		return mad.StatusMethod
	}
	h, ok := handlers[p.Attribute]
	if !ok || h.switchOnly && !a.isSwitch() || p.Method == mad.MethodSet && h.set == nil {
		return mad.StatusMethodAttribute
	}
	if p.Method == mad.MethodSet {
		if s := h.set(a, now, in, p); s != mad.StatusOK {
			return s
		}
	}
	// IBTA 14.2.4.1: the response to a Set has the values that the Set resulted in.
	data := [smp.DataLen]byte{}
	s := h.get(a, in, p, &data)
	if s == mad.StatusOK {
		p.Data = data
	}
	return s
}

// A subnetAgent is the subnet management agent: it answers Gets and Sets of a manager (IBTA 14.3).
type subnetAgent struct {
	*settings
	delayed []delayedCommand
}

// A handler answers one attribute.
type handler struct {
	switchOnly bool
	get        func(a *subnetAgent, in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16
	set        func(a *subnetAgent, now time.Duration, in *Arrival, p *smp.Packet) uint16
}

var handlers = map[mad.AttributeID]handler{
	smp.AttrNodeDescription:     {get: (*subnetAgent).getNodeDescription},
	smp.AttrNodeInfo:            {get: (*subnetAgent).getNodeInfo},
	smp.AttrSwitchInfo:          {switchOnly: true, get: (*subnetAgent).getSwitchInfo, set: (*subnetAgent).setSwitchInfo},
	smp.AttrGUIDInfo:            {get: (*subnetAgent).getGUIDInfo, set: (*subnetAgent).setGUIDInfo},
	smp.AttrPortInfo:            {get: (*subnetAgent).getPortInfo, set: (*subnetAgent).setPortInfo},
	smp.AttrPortInfoExtended:    {get: (*subnetAgent).getPortInfoExtended},
	smp.AttrPKeyTable:           {get: (*subnetAgent).getPartitions, set: (*subnetAgent).setPartitions},
	smp.AttrSLtoVL:              {get: (*subnetAgent).getSLtoVL, set: (*subnetAgent).setSLtoVL},
	smp.AttrVLArbitration:       {get: (*subnetAgent).getArbitration, set: (*subnetAgent).setArbitration},
	smp.AttrLinearForwarding:    {switchOnly: true, get: (*subnetAgent).getForwarding, set: (*subnetAgent).setForwarding},
	smp.AttrMulticastForwarding: {switchOnly: true, get: (*subnetAgent).getMulticast, set: (*subnetAgent).setMulticast},
}
