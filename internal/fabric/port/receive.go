package port

import (
	"encoding/binary"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// Receive takes a frame whose first byte arrives now: a packet or a link packet. The port
// owns it from now on. It returns the packet if the node has to forward or deliver it, with its place
// in the buffer of its lane, otherwise nil.
func (p *Port) Receive(now time.Duration, frame []byte) *Packet {
	if p.link.Physical != smp.PhysicalLinkUp {
		p.refuse(frame, reason.Detail{Reason: reason.FabricPortState, Expected: uint64(smp.PortInit), Found: uint64(p.link.State)})
		return nil
	}
	if len(frame) == ib.FlowControlLen {
		p.receiveLinkPacket(now, frame)
		return nil
	}
	var h ib.LRH
	if d := p.check(&h, frame); d.Reason != reason.None {
		p.Counters.RcvErrors++
		if d.Reason != reason.FabricVCRC { // otherwise the header may be wrong
			p.passBy(now, &h)
		}
		p.refuse(frame, d)
		return nil
	}
	p.countReceived(&h, frame)
	k := p.env.Pool.packet()
	k.Data, k.LRH, k.blocks, k.VL = frame, h, ib.PacketBlocks(h.Words), h.VL
	k.Tail, k.Due, k.Ends = now+p.Duration(len(frame)), now, Never
	if h.VL == ib.ManagementVL {
		return p.receiveManagement(now, k)
	}
	return p.receiveData(now, k)
}

// receiveLinkPacket takes a link packet (IBTA 7.9.4).
func (p *Port) receiveLinkPacket(now time.Duration, frame []byte) {
	var f ib.FlowControl
	f.Parse(frame)
	if want, found := ib.CheckVCRC(frame); want != found {
		p.Counters.SymbolErrors++
		p.refuse(frame, reason.Detail{Reason: reason.FabricVCRC, Expected: uint64(want), Found: uint64(found)})
		return
	}
	if f.Op > ib.FlowInitialize {
		p.refuse(frame, reason.Detail{Reason: reason.FabricLinkPacket, Expected: ib.FlowInitialize, Found: uint64(f.Op)})
		return
	}
	p.env.Pool.Recycle(frame)
	p.Counters.FlowRcv++
	p.flow.receive(now, &f)
	p.reschedule(now)
}

// check makes the checks of the packet receiver and the data packet check (IBTA 7.3, 7.4).
func (p *Port) check(h *ib.LRH, frame []byte) reason.Detail {
	const shortest = ib.LRHLen + 3*4 + ib.VCRCLen // IBTA 7.7.8: five words, and the CRC
	if len(frame) < shortest || !h.Parse(frame) {
		p.Counters.Malformed++
		return reason.Detail{Reason: reason.FabricLength, Expected: shortest, Found: uint64(len(frame))}
	}
	want, found := uint16(0), binary.LittleEndian.Uint16(frame[len(frame)-ib.VCRCLen:])
	if !p.noVCRC {
		want, found = ib.CheckVCRC(frame)
	}
	if want != found {
		p.Counters.LocalPhysicalErrors++
		p.Counters.SymbolErrors++
		p.physicalError()
		return reason.Detail{Reason: reason.FabricVCRC, Expected: uint64(want), Found: uint64(found)}
	}
	p.Counters.Malformed++ // unless it proves well-formed
	if h.Version != 0 {
		return reason.Detail{Reason: reason.FabricVersion, Expected: 0, Found: uint64(h.Version)}
	}
	if n := 4*int(h.Words) + ib.VCRCLen; n != len(frame) {
		return reason.Detail{Reason: reason.FabricLength, Expected: uint64(n), Found: uint64(len(frame))}
	}
	if h.VL != ib.ManagementVL && int(h.VL) >= p.config.VLs {
		return reason.Detail{Reason: reason.FabricVL, Expected: uint64(p.config.VLs), Found: uint64(h.VL)}
	}
	if h.VL == ib.ManagementVL && (h.Next != ib.LocalBTH || h.DLID.Multicast()) { // IBTA 7.6.4
		return reason.Detail{Reason: reason.FabricManagementVL, Expected: uint64(ib.LocalBTH), Found: uint64(h.Next)}
	}
	if h.DLID == 0 { // reserved (IBTA 4.1.3)
		return reason.Detail{Reason: reason.FabricDLID, Expected: 1, Found: uint64(h.DLID)}
	}
	p.Counters.Malformed--
	return reason.Detail{}
}

// passBy counts a packet that is dropped before it gets into a buffer, so that its sender gets
// its credits back.
func (p *Port) passBy(now time.Duration, h *ib.LRH) {
	if int(h.VL) >= len(p.lanes) {
		return
	}
	p.flow.arrived(int(h.VL), ib.PacketBlocks(h.Words))
	p.flow.freed(int(h.VL))
	p.reschedule(now)
}

// physicalError counts a packet with a physical error against those without. More than the
// threshold are an error of the link's integrity (IBTA 16.1.3.5).
func (p *Port) physicalError() {
	if p.marginal++; p.marginal > int(p.config.PhysicalErrors) {
		p.marginal = 0
		p.Counters.LocalLinkIntegrityErrors++
		p.env.failed(p.number, hardware.LinkIntegrity)
	}
}

func (p *Port) countReceived(h *ib.LRH, frame []byte) {
	p.marginal = max(p.marginal-1, 0)
	c := &p.Counters
	c.RcvPackets++
	c.RcvData += uint64(h.Words)
	c.SLRcvData[h.SL] += uint64(h.Words)
	if h.DLID.Multicast() {
		c.MulticastRcv++
	} else {
		c.UnicastRcv++
	}
	if at := h.HeaderLen(); h.Next >= ib.LocalBTH && len(frame) > at {
		c.CountOp(frame[at], h.VL, uint64(h.Words))
	}
	p.countMarks(h, frame)
}

// countMarks counts a packet with FECN or BECN set (annex A10).
func (p *Port) countMarks(h *ib.LRH, frame []byte) {
	const fecn, becn = 1 << 7, 1 << 6
	at := h.HeaderLen() + ib.DestQPNOffset // the bits are in front of the queue pair number
	if h.Next < ib.LocalBTH || len(frame) <= at || frame[at]&(fecn|becn) == 0 {
		return
	}
	m := p.Counters.Marks()
	if frame[at]&fecn != 0 {
		m.FECN++
		m.SLFECN[h.SL]++
	}
	if frame[at]&becn != 0 {
		m.BECN++
		m.SLBECN[h.SL]++
	}
}

func (p *Port) receiveManagement(now time.Duration, k *Packet) *Packet {
	if p.managed >= p.room { // lane 15 has no credits (IBTA 7.9.1)
		p.Counters.VL15Dropped++
		p.drop(now, k, reason.Detail{Reason: reason.FabricManagementFull, Expected: uint64(p.room), Found: uint64(p.managed)})
		return nil
	}
	p.managed++
	k.in, k.inVL = p, ib.ManagementVL
	return k
}

func (p *Port) receiveData(now time.Duration, k *Packet) *Packet {
	vl := int(k.LRH.VL)
	if needed := int(p.buffer.occupied[vl]) + k.blocks; needed > p.buffer.size {
		d, violation := p.flow.overrun(p.buffer.size, needed)
		p.Counters.BufferOverruns++
		if violation { // the sender disregards its credits
			p.Counters.ExcessiveBufferOverruns++
			p.Counters.RcvErrors++
			p.env.failed(p.number, hardware.BufferOverrun)
		}
		p.drop(now, k, d)
		return nil
	}
	p.flow.arrived(vl, k.blocks)
	p.buffer.occupied[vl] += int32(k.blocks)
	k.in, k.inVL = p, k.LRH.VL
	if d := p.admit(k); d.Reason != reason.None {
		p.drop(now, k, d)
		return nil
	}
	return k
}

// admit decides on a data packet by the state of the link and by what a manager has set.
func (p *Port) admit(k *Packet) reason.Detail {
	switch p.link.State {
	case smp.PortInit: // IBTA 7.2.2: management and link packets alone
		return reason.Detail{Reason: reason.FabricPortState, Expected: uint64(smp.PortArmed), Found: uint64(p.link.State)}
	case smp.PortArmed: // IBTA 7.2.7: the neighbor is active already
		p.link.State = smp.PortActive
		if p.env.Changed != nil {
			p.env.Changed(p.number)
		}
	}
	if p.config.FilterRawInbound && k.LRH.Next < ib.LocalBTH {
		p.Counters.RcvConstraintErrors++
		return reason.Detail{Reason: reason.FabricRaw, Expected: uint64(ib.LocalBTH), Found: uint64(k.LRH.Next)}
	}
	if p.config.EnforceInbound {
		return p.enforce(k, &p.Counters.RcvConstraintErrors)
	}
	return reason.Detail{}
}

// enforce refuses a packet of a partition that the port is not in.
func (p *Port) enforce(k *Packet, errors *uint64) reason.Detail {
	key, ok := p.partitions.match(k)
	if ok {
		return reason.Detail{}
	}
	*errors++
	if p.env.Violated != nil {
		p.env.Violated(p.number, k.Data)
	}
	return reason.Detail{Reason: reason.FabricPKey, Expected: uint64(len(p.partitions)), Found: uint64(key)}
}
