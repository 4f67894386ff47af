package agent

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
)

// A baseline has the counters of a port as they were when a client last
// cleared them. The counters of 64 bits are cleared apart from the others (IBTA
// 16.1.4). Ports whose counters were never cleared have none.
type baseline struct {
	short, extended *hardware.Counters
}

// performance is the agent of performance management.
type performance struct {
	*settings
	counters []baseline // by port
	sample   sample
}

// general handles a packet to queue pair 1: performance management and congestion control are
// the agent's, the other classes belong to programs of the node.
func (a *Agent) general(now time.Duration, in *Arrival, out *Departure) Outcome {
	var h mad.Header
	h.Parse(in.MAD)
	out.MAD = *in.MAD
	switch {
	case h.Method&mad.ResponseBit != 0:
		return Local
	case h.Class == mad.ClassPerformance:
		h.Status = a.performance.count(now, &h, (*[perf.DataLen]byte)(out.MAD[perf.DataAt:]))
	case h.Class == mad.ClassCongestion:
		if !a.congestion.control(now, in, &h, out) {
			return Discard
		}
	default:
		return Local
	}
	h.Method = mad.MethodGetResponse
	h.Put(&out.MAD)
	out.address(&a.settings, in, in.SLID)
	out.SLID = in.DLID
	out.QPN, out.SourceQPN, out.QKey, out.PKey = in.SourceQPN, mad.GSIQPN, mad.GSIQKey, in.PKey
	return Send
}

// count performs a Get or Set of performance management, and returns the status
// of the response.
func (p *performance) count(now time.Duration, h *mad.Header, data *[perf.DataLen]byte) uint16 {
	switch {
	case h.ClassVersion != perf.ClassVersion:
		return mad.StatusVersion
	case h.Method != mad.MethodGet && h.Method != mad.MethodSet:
		return mad.StatusMethod
	case h.Attribute == mad.AttrClassPortInfo && h.Method == mad.MethodGet:
		c := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: perf.ClassVersion, RespTime: responseTime,
			CapabilityMask: perf.CapAllPortSelect | perf.CapExtendedWidth | perf.CapXmitWait}
		clear(data[:])
		c.Put((*[mad.ClassPortInfoLen]byte)(data[:]))
		return mad.StatusOK
	case h.Attribute == perf.AttrPortSamplesControl:
		return p.samplesControl(now, h, data)
	case h.Attribute == perf.AttrPortSamplesResult:
		return p.samplesResult(now, h, data)
	}
	table := perf.Counters(h.Attribute)
	if table == nil && !p.neverCounts(h.Attribute) {
		return mad.StatusMethodAttribute
	}
	first, last := int(perf.PortSelect(data)), int(perf.PortSelect(data))
	if first == perf.AllPorts {
		first, last = 1, p.config.NumPorts
	} else if !p.valid(first) {
		return mad.StatusInvalid
	}
	if h.Method == mad.MethodSet {
		selected := perf.CounterSelect(h.Attribute, data)
		for n := first; n <= last; n++ {
			p.setOpcode(n, h.Attribute, table, perf.OpCode(data))
			p.setCounters(n, h.Attribute, selected, table, data)
		}
	}
	p.putCounters(first, last, h.Attribute, table, data)
	return mad.StatusOK
}

// neverCounts reports whether the counters of an attribute stay 0: links have no forward error
// correction, and nodes neither mark packets nor slow down.
func (p *performance) neverCounts(id mad.AttributeID) bool {
	switch id {
	case perf.AttrExtendedSpeeds, perf.AttrXmitCongestion, perf.AttrVLXmitCongestion:
		return true
	case perf.AttrSwitchVLCongestion:
		return p.isSwitch()
	}
	return false
}

// base returns the baseline of a port for an attribute.
func (p *performance) base(n int, id mad.AttributeID) **hardware.Counters {
	if id == perf.AttrPortCountersExtended {
		return &p.counters[n].extended
	}
	return &p.counters[n].short
}

// opcode returns the opcode that an attribute counts, nil if it has none.
func opcode(c *hardware.Counters, id mad.AttributeID) *uint8 {
	switch id {
	case perf.AttrOpReceived:
		return &c.Ops().Opcode[hardware.OpReceived]
	case perf.AttrVLOpPackets:
		return &c.Ops().Opcode[hardware.OpVLPackets]
	case perf.AttrVLOpData:
		return &c.Ops().Opcode[hardware.OpVLData]
	}
	return nil
}

// setOpcode selects the opcode that an attribute counts. Another one is counted from 0 on.
func (p *performance) setOpcode(n int, id mad.AttributeID, table []perf.Counter, op uint8) {
	o := opcode(p.node.Counters(n), id)
	if o == nil || *o == op {
		return
	}
	*o = op
	p.setCounters(n, id, 1<<len(table)-1, table, new([perf.DataLen]byte))
}

// setCounters gives the selected counters of a port the values of a Set.
func (p *performance) setCounters(n int, id mad.AttributeID, selected uint32, table []perf.Counter, data *[perf.DataLen]byte) {
	base := p.base(n, id)
	live := p.node.Counters(n)
	for i, c := range table {
		if selected>>i&1 == 0 {
			continue
		}
		if *base == nil {
			*base = new(hardware.Counters)
		}
		*counter(*base, id, i) = *counter(live, id, i) - c.Get(data)
	}
}

// putCounters writes the counters of a port, or the sums of several.
func (p *performance) putCounters(first, last int, id mad.AttributeID, table []perf.Counter, data *[perf.DataLen]byte) {
	port := perf.PortSelect(data)
	clear(data[:])
	perf.SetPortSelect(data, port)
	if op := opcode(p.node.Counters(first), id); op != nil {
		perf.SetOpCode(data, *op)
	}
	var zero hardware.Counters
	for i, c := range table {
		sum := uint64(0)
		for n := first; n <= last; n++ {
			base := *p.base(n, id)
			if base == nil {
				base = &zero
			}
			// The sum of saturated counters is saturated.
			sum += min(*counter(p.node.Counters(n), id, i)-*counter(base, id, i), c.Max())
		}
		c.Put(data, sum)
	}
}

// counter returns the counter of an index in an attribute's table.
func counter(c *hardware.Counters, id mad.AttributeID, i int) *uint64 {
	switch id {
	case perf.AttrPortCounters:
		return [...]*uint64{
			&c.SymbolErrors, &c.LinkErrorRecovery, &c.LinkDowned, &c.RcvErrors, &c.RcvRemotePhysicalErrors, &c.RcvSwitchRelayErrors,
			&c.XmitDiscards, &c.XmitConstraintErrors, &c.RcvConstraintErrors, &c.LocalLinkIntegrityErrors, &c.ExcessiveBufferOverruns,
			&c.VL15Dropped, &c.XmitData, &c.RcvData, &c.XmitPackets, &c.RcvPackets, &c.XmitWait,
		}[i]
	case perf.AttrPortCountersExtended:
		return [...]*uint64{
			&c.XmitData, &c.RcvData, &c.XmitPackets, &c.RcvPackets, &c.UnicastXmit, &c.UnicastRcv, &c.MulticastXmit, &c.MulticastRcv,
		}[i]
	case perf.AttrRcvErrorDetails:
		return [...]*uint64{&c.LocalPhysicalErrors, &c.Malformed, &c.BufferOverruns, &c.DLIDMapping, &c.VLMapping, &c.LoopingDLID}[i]
	case perf.AttrXmitDiscardDetails:
		return [...]*uint64{&c.InactiveDiscards, &c.NeighborMTU, &c.LifeTimeDiscards, &c.HOQDiscards}[i]
	case perf.AttrOpReceived:
		return [...]*uint64{&c.Ops().Packets, &c.Ops().Data}[i]
	case perf.AttrVLOpPackets:
		return &c.Ops().VLPackets[i]
	case perf.AttrVLOpData:
		return &c.Ops().VLData[i]
	case perf.AttrFlowControl:
		return [...]*uint64{&c.FlowXmit, &c.FlowRcv}[i]
	case perf.AttrVLFlowControlErrors:
		return &c.VLFlowControlErrors[i]
	case perf.AttrXmitDataSL:
		return &c.SLXmitData[i]
	case perf.AttrRcvDataSL:
		return &c.SLRcvData[i]
	case perf.AttrRcvCongestion:
		return [...]*uint64{&c.Marks().FECN, &c.Marks().BECN}[i]
	case perf.AttrRcvFECNSL:
		return &c.Marks().SLFECN[i]
	case perf.AttrRcvBECNSL:
		return &c.Marks().SLBECN[i]
	}
	return &c.VLXmitWait[i]
}
