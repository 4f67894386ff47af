package adapter

import (
	"net/netip"
	"time"

	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
	"softrdma/internal/wire/ib"
)

// A hostPort is a lane as the memory path sees it.
type hostPort packetLane

// Message implements hostpath.Port.
func (h *hostPort) Message(now time.Duration, p *hostpath.Path, m *hostmem.Received, payload []byte) {
	l := (*packetLane)(h)
	fault := l.in.ParseParts(m.Header, payload)
	if fault == ib.OK && l.run.next(now, p, &l.in, m) {
		machine.Continued(l.traffic, &l.run.qp.Port, &l.in)
		l.recorder.Packet(recorder.Received, now, l.in.DestQPN, &l.in.Packet, len(payload), 1)
		return
	}
	l.fromHost(p, m)
	if fault == ib.OK && l.dev.packetLane(l.in.DestQPN) != l {
		l.drop(nil, l.in.DestQPN, reason.PacketQPN, uint64(len(l.qps)), uint64(l.in.DestQPN))
		return
	}
	if m.Train > 1 && fault == ib.OK && l.in.Opcode.Transport() == ib.RC && l.in.Opcode.Info().Payload {
		l.in.Train = int(m.Train)
	}
	if m.Lent != nil {
		l.in.Lender = m.Lent
	}
	if l.checked(now, fault, nil) {
		if q := l.qps[l.in.DestQPN]; q != nil && q.can.Continuer != nil {
			l.run.begin(p, q, &l.in, m)
		}
	}
	l.in.Train, l.in.Lender = 0, nil
}

// Lost implements hostpath.Port.
func (h *hostPort) Lost(now time.Duration, p *hostpath.Path, m *hostmem.Received) {
	l := (*packetLane)(h)
	fault := l.in.ParseHeaders(m.Header)
	l.fromHost(p, m)
	if fault != ib.OK || l.dev.packetLane(l.in.DestQPN) != l {
		return // it was refused when it could not be read
	}
	l.in.Lost, l.in.Train = true, int(m.Train)
	l.checked(now, fault, nil)
	l.in.Lost, l.in.Train = false, 0
}

// Packet implements hostpath.Port.
func (h *hostPort) Packet(now time.Duration, p *hostpath.Path, m *hostmem.Received, header, packet []byte) {
	l := (*packetLane)(h)
	fault := l.in.Parse(packet)
	l.fromHost(p, m)
	l.from, l.header = nil, header
	l.arrived(packet)
	if !l.faults.takes(now, packet) {
		l.checked(now, fault, packet)
	}
	l.header = nil
}

// endRun does once what follows the messages of a run.
func (l *packetLane) endRun() {
	if q, taken := l.run.end(); taken {
		l.received(q)
	}
}

func (l *packetLane) fromHost(p *hostpath.Path, m *hostmem.Received) {
	l.endRun()
	l.in.Src, l.in.Dst = netip.AddrPortFrom(p.Peer.Addr(), m.Port), l.host.Local
	l.in.TOS, l.in.TTL, l.in.Memory = m.TrafficClass, m.HopLimit, true
}

// Refused implements hostpath.Port.
func (h *hostPort) Refused(why reason.Detail) { h.dev.Trace.Refuse(0, why) }

// Revoked implements hostpath.Port.
func (h *hostPort) Revoked(p *hostpath.Path) {
	for _, q := range h.qps {
		if r := q.can.Revoker; r != nil && q.flow != nil && qp.OnWire(q.flow.Peer) == p.Peer {
			r.Revoked()
		}
	}
}

// Broken implements hostpath.Port.
func (h *hostPort) Broken(p *hostpath.Path, _ reason.Detail) {
	h.flows.reroute()
	go p.Far.Close()
}
