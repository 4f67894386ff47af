package port

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// overhead is the most that headers and ICRC add to the path MTU, without the VCRC
// (IBTA 7.7.8).
const overhead = 124

// Send queues a packet on its lane, k.VL, and owns it from now on. It discards packets that
// may not leave by this port.
func (p *Port) Send(now time.Duration, k *Packet) {
	if d := p.permit(k); d.Reason != reason.None {
		p.drop(now, k, d)
		return
	}
	if k.LRH.VL != k.VL {
		k.relabel(p.noVCRC)
	}
	if k.VL == ib.ManagementVL {
		p.management.push(k)
		p.reschedule(now)
		return
	}
	l := &p.lanes[k.VL]
	if l.queue.n == 0 {
		l.since = now
	}
	l.queue.push(k)
	p.waiting |= 1 << k.VL
	p.reschedule(now)
}

// relabel writes the lane of the next link into the LRH. The ICRC covers all other bits of
// the LRH, so that they stay as they are.
func (k *Packet) relabel(noVCRC bool) {
	k.LRH.VL = k.VL
	k.Data[0] = k.VL<<4 | k.Data[0]&0xf
	if !noVCRC {
		ib.PutVCRC(k.Data)
	}
}

// permit decides whether a packet may leave by this port.
func (p *Port) permit(k *Packet) reason.Detail {
	c := &p.Counters
	n := 4 * int(k.LRH.Words)
	switch {
	case k.VL == ib.ManagementVL:
		if p.link.Physical == smp.PhysicalLinkUp && p.management.n < p.room {
			return reason.Detail{}
		}
		if p.link.Physical == smp.PhysicalLinkUp {
			c.VL15Dropped++
			return reason.Detail{Reason: reason.FabricManagementFull, Expected: uint64(p.room), Found: uint64(p.management.n)}
		}
		fallthrough
	case p.link.State != smp.PortActive: // IBTA 7.2.2
		c.InactiveDiscards++
		c.XmitDiscards++
		return reason.Detail{Reason: reason.FabricPortState, Expected: uint64(smp.PortActive), Found: uint64(p.link.State)}
	case int(k.VL) >= p.config.VLs:
		c.XmitDiscards++
		return reason.Detail{Reason: reason.FabricVL, Expected: uint64(p.config.VLs), Found: uint64(k.VL)}
	case n > p.config.MTU+overhead:
		c.NeighborMTU++
		c.XmitDiscards++
		return reason.Detail{Reason: reason.FabricMTU, Expected: uint64(p.config.MTU + overhead), Found: uint64(n)}
	case p.config.FilterRawOutbound && k.LRH.Next < ib.LocalBTH:
		c.XmitConstraintErrors++
		return reason.Detail{Reason: reason.FabricRaw, Expected: uint64(ib.LocalBTH), Found: uint64(k.LRH.Next)}
	}
	if p.config.EnforceOutbound {
		return p.enforce(k, &c.XmitConstraintErrors)
	}
	return reason.Detail{}
}

// Queued returns the number of packets that wait on a lane.
func (p *Port) Queued(vl uint8) int {
	switch {
	case vl == ib.ManagementVL:
		return p.management.n
	case int(vl) >= len(p.lanes):
		return 0
	}
	return p.lanes[vl].queue.n
}

// Next returns the frame that leaves now, which the caller owns, or nil if none does. Link
// packets precede lane 15, which precedes the data lanes (IBTA 7.6.9).
func (p *Port) Next(now time.Duration) []byte {
	frame := p.next(now)
	p.reschedule(now)
	return frame
}

func (p *Port) next(now time.Duration) []byte {
	if now < p.start() || p.link.Physical != smp.PhysicalLinkUp {
		return nil
	}
	p.finish(now)
	if p.every != Never {
		p.refreshFlow(now)
	}
	if p.buffer.tell != 0 {
		return p.sendLinkPacket(now)
	}
	if k := p.management.head; k != nil && k.Due <= now {
		p.management.pop()
		return p.transmit(now, k)
	}
	ready := p.ready(now)
	if ready == 0 {
		return nil
	}
	p.waited(now)
	vl, high := p.arbiter.choose(ready, p.config.HighLimit)
	k := p.pop(now, vl)
	p.arbiter.sent(k.blocks, high)
	p.flow.sent(vl, k.blocks)
	p.lanes[vl].discards = 0
	return p.transmit(now, k)
}

// sendLinkPacket builds the next link packet of flow control.
func (p *Port) sendLinkPacket(now time.Duration) []byte {
	f := p.flow.next(now)
	f.Op = operation(p.link.State)
	frame := p.env.Pool.Buffer(ib.FlowControlLen)
	f.Put(frame)
	p.occupy(now, ib.FlowControlLen)
	p.Counters.FlowXmit++
	return frame
}

// refreshFlow repeats link packets that are due, and reports lanes for which the neighbor has not
// granted credit for long. The link stays up: a real one would train again.
func (p *Port) refreshFlow(now time.Duration) {
	silent := p.flow.refresh(now, p.every, p.config.VLs, p.link.State == smp.PortActive)
	for ; silent != 0; silent &= silent - 1 {
		p.Counters.VLFlowControlErrors[first(silent)]++
		p.env.failed(p.number, hardware.FlowControlUpdate)
	}
}

// pop takes the head of a lane's queue.
func (p *Port) pop(now time.Duration, vl int) *Packet {
	l := &p.lanes[vl]
	l.unblock(now, &p.Counters.VLXmitWait[vl])
	k := l.queue.pop()
	l.since = now
	if l.queue.n == 0 {
		p.waiting &^= 1 << vl
	}
	return k
}

// transmit sends a packet. It keeps its place in the buffer until its last byte has left.
func (p *Port) transmit(now time.Duration, k *Packet) []byte {
	c, h := &p.Counters, &k.LRH
	c.XmitPackets++
	c.XmitData += uint64(h.Words)
	c.SLXmitData[h.SL] += uint64(h.Words)
	if h.DLID.Multicast() {
		c.MulticastXmit++
	} else {
		c.UnicastXmit++
	}
	frame := k.Data
	k.Data = nil
	p.occupy(now, len(frame))
	p.sending = k
	if p.start() <= now {
		p.finish(now)
	}
	return frame
}

// finish ends the transmission of a packet.
func (p *Port) finish(now time.Duration) {
	if k := p.sending; k != nil {
		p.sending = nil
		p.env.Pool.Free(now, k)
	}
}

// ready returns the lanes whose first packet may leave now. It discards packets whose time
// is over, and notes on which lanes the neighbor has no room.
func (p *Port) ready(now time.Duration) (set uint16) {
	due := false
	for rest := p.waiting; rest != 0; rest &= rest - 1 {
		vl := first(rest)
		k := p.head(now, vl)
		if k == nil || k.Due > now {
			continue
		}
		due = true
		l := &p.lanes[vl]
		if p.flow.room(vl, k.blocks) {
			set |= 1 << vl
		} else if l.blocked < 0 {
			l.blocked = now
		}
	}
	if due && set == 0 && p.waits < 0 {
		p.waits = now
	}
	return set
}

// head returns the first packet of a lane whose time is not over.
func (p *Port) head(now time.Duration, vl int) *Packet {
	l := &p.lanes[vl]
	for k := l.queue.head; k != nil; k = l.queue.head {
		switch {
		case now >= k.Ends: // IBTA 18.2.5.4
			p.Counters.LifeTimeDiscards++
			p.discard(now, vl, reason.Detail{Reason: reason.FabricLifeTime, Expected: uint64(k.Ends), Found: uint64(now)})
		case now < l.stalled:
			p.Counters.HOQDiscards++
			p.discard(now, vl, reason.Detail{Reason: reason.FabricStalled, Expected: uint64(p.config.StallCount), Found: uint64(l.discards)})
		case now >= l.headEnds(k, p.config.HOQLife) && !p.flow.room(vl, k.blocks): // IBTA 18.2.5.4
			p.Counters.HOQDiscards++
			since := l.since
			l.stall(now, &p.config)
			p.discard(now, vl, reason.Detail{Reason: reason.FabricHOQLife, Expected: uint64(p.config.HOQLife), Found: uint64(now - since)})
		default:
			return k
		}
	}
	return nil
}

func (p *Port) discard(now time.Duration, vl int, d reason.Detail) {
	p.Counters.XmitDiscards++
	p.drop(now, p.pop(now, vl), d)
}

// headEnds is when the time of a packet at the head of the lane is over.
func (l *lane) headEnds(k *Packet, life time.Duration) time.Duration {
	if life == hardware.Unlimited {
		return Never
	}
	return max(l.since, k.Due) + life
}

// stalledLives is for how many times the limit a lane stays stalled (IBTA 18.2.5.4).
const stalledLives = 8

// stall counts a discard. After StallCount in a row the lane is stalled, and discards all.
func (l *lane) stall(now time.Duration, c *hardware.PortConfig) {
	l.discards++
	if c.StallCount > 0 && l.discards >= c.StallCount {
		l.stalled, l.discards = now+stalledLives*c.HOQLife, 0
	}
}

// unblock counts how long the neighbor had no room for the head of a lane.
func (l *lane) unblock(now time.Duration, waits *uint64) {
	if l.blocked >= 0 {
		*waits += uint64((now - l.blocked) / Tick)
		l.blocked = -1
	}
}

// waited counts how long the port had a packet and sent none.
func (p *Port) waited(now time.Duration) {
	if p.waits >= 0 {
		p.Counters.XmitWait += uint64((now - p.waits) / Tick)
		p.waits = -1
	}
}

// reschedule computes when the port has something to do next.
func (p *Port) reschedule(now time.Duration) {
	at := Never
	if p.link.Physical == smp.PhysicalLinkUp {
		at = p.deadline(max(now, p.start()))
	}
	p.env.Schedule.Set(&p.timer, at)
}

// deadline is when the port has something to do, which is not before a time.
func (p *Port) deadline(start time.Duration) time.Duration {
	if p.sending != nil || p.buffer.tell != 0 {
		return start
	}
	at := Never
	if p.every != Never {
		at = p.flow.deadline(p.every, p.config.VLs)
	}
	if k := p.management.head; k != nil {
		at = min(at, max(start, k.Due))
	}
	for rest := p.waiting; rest != 0; rest &= rest - 1 {
		vl := first(rest)
		l := &p.lanes[vl]
		k := l.queue.head
		switch {
		case k.Due > start:
			at = min(at, k.Due)
		case l.blocked < 0 || p.flow.room(vl, k.blocks): // leaves, or its wait begins
			at = start
		default:
			at = min(at, max(start, min(k.Ends, l.headEnds(k, p.config.HOQLife))))
		}
	}
	return max(at, start)
}
