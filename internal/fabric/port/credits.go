package port

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// receiveGrant takes a link packet (IBTA 7.9.4).
func (p *Port) receiveGrant(now time.Duration, frame []byte) {
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
	if int(f.VL) >= len(p.lanes) { // the peer has more lanes
		return
	}
	l := &p.lanes[f.VL]
	l.limit, l.heard = f.Limit, now
	if l.received != f.Sent { // packets were lost on the link: their credits are free again
		l.received = f.Sent
	}
	p.grant(now, int(f.VL))
	p.reschedule(now)
}

// credit reports whether the peer has room for a packet of n blocks (IBTA 7.9.4).
func (l *lane) credit(n int) bool { return l.limit.Sub(l.sent.Add(n)) <= ib.MaxCredit }

// granted is the limit that the port can grant now.
func (p *Port) granted(l *lane) ib.Blocks {
	return l.received.Add(min(p.buffer-l.occupied, ib.MaxCredit))
}

// grant decides whether a lane's new limit is worth a link packet: once a quarter of the
// buffer is free that the peer does not know of, or when the peer has not enough for a
// longest packet left. So the peer never waits while there is room.
func (p *Port) grant(now time.Duration, vl int) {
	l := &p.lanes[vl]
	limit := p.granted(l)
	more, left := limit.Sub(l.told), l.told.Sub(l.received)
	if more == 0 || p.link.Physical != smp.PhysicalLinkUp {
		return
	}
	// After packets were lost the new limit may be behind the old one, which left shows.
	if more >= p.buffer/4 || left < minBuffer || left > p.buffer {
		p.grants |= 1 << vl
	}
}

// free gives a packet's place in the buffer back.
func (p *Port) free(now time.Duration, vl uint8, blocks int) {
	if vl == ib.ManagementVL {
		p.managed--
		return
	}
	p.lanes[vl].occupied -= blocks
	if p.link.Physical == smp.PhysicalLinkUp {
		p.grant(now, int(vl))
		p.reschedule(now)
	}
}

// sendGrant builds the link packet of the first lane that has one to send.
func (p *Port) sendGrant(now time.Duration) []byte {
	vl := first(p.grants)
	p.grants &^= 1 << vl
	l := &p.lanes[vl]
	l.told, l.refreshed = p.granted(l), now
	frame := p.env.Pool.Buffer(ib.FlowControlLen)
	f := ib.FlowControl{Op: p.operation(), VL: uint8(vl), Sent: l.sent, Limit: l.told}
	f.Put(frame)
	p.occupy(now, ib.FlowControlLen)
	p.Counters.FlowXmit++
	return frame
}

// refreshAt is when the next grant is due that repeats an earlier one.
func (p *Port) refreshAt() time.Duration {
	at := Never
	if p.every == Never {
		return at
	}
	for i := range p.config.VLs {
		at = min(at, p.lanes[i].refreshed+p.every)
	}
	return at
}

// refreshGrants marks the lanes whose grant is due again.
func (p *Port) refreshGrants(now time.Duration) {
	if p.every == Never {
		return
	}
	for i := range p.config.VLs {
		if p.lanes[i].refreshed+p.every <= now {
			p.grants |= 1 << i
		}
		p.watch(now, i)
	}
}

// watchdogPeriods is the time of the flow control update watchdog in refresh periods. IBTA
// 7.9.4 has 400,000 symbol times, and 65,536 for the refresh.
const watchdogPeriods = 6

// watch reports a lane for which the neighbor has not granted credit for long. The link stays
// up: a real one would train again.
func (p *Port) watch(now time.Duration, vl int) {
	l := &p.lanes[vl]
	if p.link.State != smp.PortActive || now-l.heard < watchdogPeriods*p.every {
		return
	}
	l.heard = now
	p.Counters.VLFlowControlErrors[vl]++
	p.failed(hardware.FlowControlUpdate)
}

func (p *Port) failed(e hardware.LinkError) {
	if p.env.Failed != nil {
		p.env.Failed(p.number, e)
	}
}

// SetRefresh sets the longest time between two grants of credit for a lane, and lets the port
// repeat all grants now. See Config.Refresh.
func (p *Port) SetRefresh(now, every time.Duration) {
	p.refresh = every
	p.setRate()
	for i := range p.lanes {
		p.lanes[i].heard = now
	}
	if p.link.Physical == smp.PhysicalLinkUp {
		p.grants |= 1<<p.config.VLs - 1
	}
	p.reschedule(now)
}

// SetBuffer sets the room of each data lane, as Config.Buffer does, for a link with another
// delay than the node's other links have. The link is down.
func (p *Port) SetBuffer(blocks int) { p.buffer = min(max(blocks, minBuffer), MaxBuffer) }
