package agent

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// Receive handles a management packet that the network brought to this node.
// It keeps nothing of in.
func (a *Agent) Receive(now time.Duration, in *Arrival, out *Departure) Outcome {
	return a.handle(now, in, out, false)
}

// Originate handles a packet that a program of the node sends from queue pair 0.
// The directed route and the addresses decide where it goes, which may be the
// agent of the node itself.
func (a *Agent) Originate(now time.Duration, in *Arrival, out *Departure) Outcome {
	return a.handle(now, in, out, true)
}

func (a *Agent) handle(now time.Duration, in *Arrival, out *Departure, local bool) Outcome {
	*out = Departure{}
	if !a.valid(in.Port) {
		return out.discard(reason.SMPPort, uint64(a.config.NumPorts), uint64(in.Port))
	}
	if in.MAD[0] != mad.BaseVersion {
		return out.discard(reason.MADVersion, mad.BaseVersion, uint64(in.MAD[0]))
	}
	management := in.MAD[1] == mad.ClassLIDRouted || in.MAD[1] == mad.ClassDirected
	if in.QPN != smp.QPN {
		if management { // IBTA 13.5.3: subnet management has queue pair 0 of its own
			return out.discard(reason.MADClass, mad.ClassPerformance, uint64(in.MAD[1]))
		}
		return a.general(now, in, out)
	}
	if !management {
		return out.discard(reason.MADClass, mad.ClassLIDRouted, uint64(in.MAD[1]))
	}
	var p smp.Packet
	p.Parse(in.MAD)
	byLID := !p.Directed() || p.BeginsByLID() && in.DLID != smp.PermissiveLID
	if local && byLID && !a.ends[a.endPort(in.Port)].owns(in.DLID) {
		return a.relay(in, out)
	}
	if p.Directed() {
		return a.directed(now, in, out, &p, local)
	}
	return a.manage(now, in, out, &p, local)
}

// Deadline returns when Trap has something to send or Expire something to do.
func (a *Agent) Deadline() time.Duration {
	return min(a.traps.deadline(), a.subnet.deadline(), a.performance.deadline())
}

// Expire executes the commands whose answers have left, and starts and ends samples.
func (a *Agent) Expire(now time.Duration) {
	a.performance.expireSample(now)
	a.subnet.expire(now)
}

// relay sends a program's packet that is routed by LID.
func (a *Agent) relay(in *Arrival, out *Departure) Outcome {
	out.address(&a.settings, in, in.DLID)
	out.MAD = *in.MAD
	return Send
}

// address directs a packet of subnet management to a LID.
func (d *Departure) address(s *settings, in *Arrival, dlid uint16) {
	if !s.isSwitch() {
		d.Port = in.Port
	}
	d.SLID, d.DLID, d.SL = s.ends[s.endPort(in.Port)].lid, dlid, in.SL
}

func (d *Departure) discard(r reason.Reason, expected, found uint64) Outcome {
	d.Reason = reason.Detail{Reason: r, Expected: expected, Found: found}
	return Discard
}

// manage handles a packet of subnet management whose destination is this node.
func (a *Agent) manage(now time.Duration, in *Arrival, out *Departure, p *smp.Packet, local bool) Outcome {
	// IBTA 14.3.1: the manager, not the agent, receives responses, traps and SMInfo.
	switch {
	case p.Method&mad.ResponseBit != 0, p.Method == mad.MethodTrap:
		out.MAD = *in.MAD
		return Local
	case p.Attribute == smp.AttrSMInfo && a.ends[a.endPort(in.Port)].capability&smp.CapSM != 0:
		p.Put(&out.MAD)
		return Local
	}
	if o := a.checkMKey(now, in, out, p); o == Discard {
		return Discard
	}
	if p.Method == mad.MethodTrapRepress {
		if p.Attribute == mad.AttrNotice && !a.repress(in, p) {
			out.MAD = *in.MAD
			return Local
		}
		return out.discard(reason.None, 0, 0)
	}
	p.Status = a.subnet.answer(now, in, p)
	p.Method = mad.MethodGetResponse
	if p.Directed() {
		p.Returning = true
		return a.returnDirected(in, out, p, local)
	}
	p.Put(&out.MAD)
	if local {
		return Local
	}
	out.address(&a.settings, in, in.SLID)
	if in.DLID != smp.PermissiveLID && in.DLID != 0 {
		out.SLID = in.DLID
	}
	if in.SLID == smp.PermissiveLID || in.SLID == 0 {
		// A manager without a LID is at the other end of the link.
		out.Port, out.DLID = in.Port, smp.PermissiveLID
	}
	out.SL, out.SourceQPN, out.QPN = in.SL, smp.QPN, in.SourceQPN
	return Send
}
