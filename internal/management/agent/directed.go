package agent

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// directed handles a packet with a directed route (IBTA 14.2.2).
func (a *Agent) directed(now time.Duration, in *Arrival, out *Departure, p *smp.Packet, local bool) Outcome {
	if p.HopCount > smp.MaxHops {
		return out.discard(reason.SMPHops, smp.MaxHops, uint64(p.HopCount))
	}
	if p.Returning {
		return a.returnDirected(in, out, p, local)
	}
	switch {
	case p.HopPointer == 0 && p.HopCount > 0: // IBTA 14.2.2.1: the directed part begins here
		if !local && (!a.isSwitch() || p.DrSLID == smp.PermissiveLID) {
			return out.discard(reason.SMPHops, 1, 0)
		}
		p.HopPointer = 1
		return a.forward(in, out, p, p.Initial[1])
	case p.HopPointer < p.HopCount:
		if !a.isSwitch() {
			return out.discard(reason.SMPHops, uint64(p.HopCount), uint64(p.HopPointer))
		}
		p.Return[p.HopPointer] = uint8(in.Port)
		p.HopPointer++
		return a.forward(in, out, p, p.Initial[p.HopPointer])
	case p.HopPointer == p.HopCount: // the directed part ends here
		if p.HopCount > 0 {
			p.Return[p.HopPointer] = uint8(in.Port)
		}
		p.HopPointer++
		if p.DrDLID == smp.PermissiveLID {
			return a.manage(now, in, out, p, local)
		}
		if !a.isSwitch() && !local {
			return out.discard(reason.SMPHops, smp.PermissiveLID, uint64(p.DrDLID))
		}
		out.address(&a.settings, in, p.DrDLID)
		p.Put(&out.MAD)
		return Send
	case p.HopPointer == p.HopCount+1: // came by LID after the directed part
		return a.manage(now, in, out, p, local)
	}
	return out.discard(reason.SMPHops, uint64(p.HopCount)+1, uint64(p.HopPointer))
}

// returnDirected handles a response on its way back along a directed route.
func (a *Agent) returnDirected(in *Arrival, out *Departure, p *smp.Packet, local bool) Outcome {
	answered := in.MAD[4]&0x80 == 0 // the response was made here
	switch {
	case (answered || local) && p.DrDLID != smp.PermissiveLID && p.HopPointer == p.HopCount+1: // the first part back is routed by LID
		to := in.SLID
		if !answered {
			to = in.DLID
		}
		out.address(&a.settings, in, to)
		p.Put(&out.MAD)
		return Send
	case p.HopCount > 0 && p.HopPointer == p.HopCount+1, p.HopPointer >= 2 && p.HopPointer <= p.HopCount:
		if !answered && !local && !a.isSwitch() {
			return out.discard(reason.SMPHops, 1, uint64(p.HopPointer))
		}
		p.HopPointer--
		return a.forward(in, out, p, p.Return[p.HopPointer])
	case p.HopPointer == 1 && p.DrSLID != smp.PermissiveLID && a.isSwitch():
		p.HopPointer = 0
		out.address(&a.settings, in, p.DrSLID)
		p.Put(&out.MAD)
		return Send
	case p.HopPointer <= 1:
		p.HopPointer = 0
		if answered && p.HopCount == 0 && !local { // a route of no hops came by LID
			out.address(&a.settings, in, in.SLID)
			p.Put(&out.MAD)
			return Send
		}
		p.Put(&out.MAD)
		return Local
	}
	return out.discard(reason.SMPHops, uint64(p.HopCount)+1, uint64(p.HopPointer))
}

// forward sends the packet by a port of a directed route.
func (a *Agent) forward(in *Arrival, out *Departure, p *smp.Packet, to uint8) Outcome {
	if to == 0 || int(to) > a.config.NumPorts || !a.isSwitch() && int(to) != in.Port {
		return out.discard(reason.SMPPort, uint64(a.config.NumPorts), uint64(to))
	}
	out.Port, out.SLID, out.DLID = int(to), smp.PermissiveLID, smp.PermissiveLID
	p.Put(&out.MAD)
	return Send
}

// checkMKey checks the management key of a packet (IBTA 14.2.4). A packet with
// a wrong one is discarded without a response.
func (a *Agent) checkMKey(now time.Duration, in *Arrival, out *Departure, p *smp.Packet) Outcome {
	n := a.endPort(in.Port)
	e := &a.ends[n]
	e.expire(now)
	if e.mkey == 0 || p.MKey == e.mkey {
		e.leaseEnd = Never // IBTA 14.2.4.2: a valid key ends the lease's countdown
		return Send
	}
	if p.Method == mad.MethodGet && e.protect < 2 {
		return Send
	}
	increment(&e.mkeyViolations)
	if e.leasePeriod != 0 && e.leaseEnd == Never {
		e.leaseEnd = now + time.Duration(e.leasePeriod)*time.Second
	}
	a.mkeyTrap(now, n, in, p)
	return out.discard(reason.SMPManagementKey, uint64(e.protect), uint64(p.Attribute))
}

// expire lifts the protection when the lease is over (IBTA 14.2.4.2).
func (e *end) expire(now time.Duration) {
	if now >= e.leaseEnd {
		e.leaseEnd, e.protect = Never, 0
	}
}

// shows reports whether a Get with a key may see the management key (IBTA
// 14.2.4.1, table of protection levels).
func (e *end) shows(key uint64) bool { return e.mkey == key || e.protect == 0 }

func increment(c *uint16) {
	if *c != 0xffff {
		*c++
	}
}
