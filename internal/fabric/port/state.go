package port

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// Link returns the state of the link.
func (p *Port) Link() hardware.Link { return p.link }

// Trainable reports whether the port looks for a neighbor.
func (p *Port) Trainable() bool { return p.link.Physical == smp.PhysicalPolling }

// Connect is the end of link training: the neighbor answers. The link becomes up with the
// width and speed of l (IBTA 7.2.7: to Initialize).
func (p *Port) Connect(now time.Duration, l hardware.Link) {
	if !p.Trainable() {
		return
	}
	p.link = l
	p.link.Physical, p.link.State = smp.PhysicalLinkUp, smp.PortInit
	p.set(&p.link)
	p.busy, p.carry = now, 0
	for i := range p.lanes {
		p.lanes[i] = lane{blocked: -1}
	}
	p.flow.up(now)
	p.changed(now)
}

// Disconnect takes the link down, since its neighbor or cable has gone. The port looks for
// a neighbor again.
func (p *Port) Disconnect(now time.Duration) { p.down(now, smp.PhysicalPolling) }

// down takes the link down, to a physical state. Packets that wait for it are discarded.
func (p *Port) down(now time.Duration, to smp.PhysicalState) {
	if p.link.Physical == smp.PhysicalLinkUp {
		p.Counters.LinkDowned++
	}
	p.link = hardware.Link{State: smp.PortDown, Physical: to}
	p.busy = now
	p.flow.down()
	p.finish(now)
	p.flush(now)
	p.changed(now)
}

// flush discards every packet that waits to be sent.
func (p *Port) flush(now time.Duration) {
	for p.management.n > 0 {
		p.discardInactive(now, p.management.pop())
	}
	p.flushData(now)
}

// flushData discards the packets of data lanes.
func (p *Port) flushData(now time.Duration) {
	for i := range p.lanes {
		for p.lanes[i].queue.n > 0 {
			p.discardInactive(now, p.lanes[i].queue.pop())
		}
		p.lanes[i].unblock(now, &p.Counters.VLXmitWait[i])
	}
	p.waiting = 0
	p.waited(now)
}

func (p *Port) discardInactive(now time.Duration, k *Packet) {
	p.Counters.InactiveDiscards++
	p.Counters.XmitDiscards++
	p.drop(now, k, reason.Detail{Reason: reason.FabricPortState, Expected: uint64(smp.PortActive), Found: uint64(p.link.State)})
}

// Command changes the state of the link as a manager asks, and reports whether the present
// state allows it (IBTA 7.2.7, 14.2.5.6).
func (p *Port) Command(now time.Duration, c hardware.LinkCommand) bool {
	s := &p.link
	switch c {
	case hardware.LinkDown:
		if s.Physical == smp.PhysicalDisabled {
			return false
		}
		p.down(now, p.config.DownDefault)
	case hardware.LinkArm:
		if s.State == smp.PortArmed {
			return true
		}
		if s.State != smp.PortInit {
			return false
		}
		s.State = smp.PortArmed
		p.changed(now)
	case hardware.LinkActivate:
		if s.State == smp.PortActive {
			return true
		}
		if s.State != smp.PortArmed {
			return false
		}
		s.State = smp.PortActive
		p.changed(now)
	case hardware.LinkSleep:
		p.down(now, smp.PhysicalSleep)
	case hardware.LinkPoll:
		p.down(now, smp.PhysicalPolling)
	case hardware.LinkDisable:
		p.down(now, smp.PhysicalDisabled)
	default:
		return false
	}
	return true
}

func (p *Port) changed(now time.Duration) {
	p.reschedule(now)
	if p.env.Changed != nil {
		p.env.Changed(p.number)
	}
}

// operation is what link packets say in the present state (IBTA 7.9.4).
func operation(s smp.PortState) uint8 {
	if s == smp.PortInit {
		return ib.FlowInitialize
	}
	return ib.FlowNormal
}
