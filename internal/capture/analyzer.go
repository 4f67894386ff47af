package capture

import (
	"fmt"
	"net/netip"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Bounds of what an Analyzer remembers, whatever a file holds.
const (
	maxFlows      = 16384 // connections, counted per direction
	maxCandidates = 1024  // connections between two hosts among which it looks for the other direction
	maxReads      = 128   // READs and ATOMICs per connection
	maxRecent     = 16    // messages per connection that a NAK can be explained by
	maxMTU        = 4096
)

// An Analyzer follows connections through a capture and says what is wrong
// with each packet. It sees the traffic from outside: what the capture lost
// looks as if the network had lost it.
type Analyzer struct {
	flows    map[flowKey]*flow
	order    []*flow
	between  map[hosts][]*flow
	findings []Finding

	untracked uint64
}

// NewAnalyzer makes an Analyzer that has seen nothing.
func NewAnalyzer() *Analyzer {
	return &Analyzer{flows: make(map[flowKey]*flow), between: make(map[hosts][]*flow)}
}

type hosts struct{ src, dst netip.Addr }

type flowKey struct {
	hosts
	qpn       uint32
	transport ib.Transport
}

// Connection counts what went one way of a connection.
type Connection struct {
	Src, Dst      netip.Addr
	QPN           uint32 // of the receiver
	PeerQPN       uint32 // of the sender, where the capture tells it; else 0
	Opcode        ib.Opcode
	Packets       uint64
	Bytes         uint64 // of payload
	Retransmitted uint64
	Missing       uint64 // packets that were seen to be missing
	RNRs          uint64 // RNR NAKs
	NAKs          uint64 // other NAKs
	Malformed     uint64
	BadICRC       uint64
	Marked        uint64 // with congestion experienced
}

// Connections gives the counts in the order in which connections appeared.
func (a *Analyzer) Connections() []Connection {
	all := make([]Connection, 0, len(a.order))
	for _, f := range a.order {
		c := f.Connection
		if f.peer != nil {
			c.PeerQPN = f.peer.QPN
		}
		all = append(all, c)
	}
	return all
}

// Untracked is how many packets are in no Connection: damaged ones of which no
// good one was seen, and those of connections beyond what the Analyzer keeps.
func (a *Analyzer) Untracked() uint64 { return a.untracked }

// Add takes the next packet and tells what there is to say about it. The slice
// holds until the next call.
func (a *Analyzer) Add(p *Packet) []Finding {
	a.findings = a.findings[:0]
	f := a.flow(p)
	if f == nil {
		a.untracked++
		f = &flow{} // judged by itself
	}
	f.Packets++
	if p.ECN() == 3 {
		f.Marked++
		a.note("congestion experienced: a router marked the packet")
	}
	// What a receiver drops does not move the connection on (IBTA 9.6).
	if p.ICRC == Bad {
		f.BadICRC++
		a.fault(reason.PacketICRC, uint64(p.Expected), uint64(p.Found), "")
	}
	if p.Fault != ib.OK {
		f.Malformed++
		a.findings = append(a.findings, Finding{Level: Fault, Detail: malformed(p)})
	}
	if p.ICRC == Bad || p.Fault != ib.OK {
		return a.findings
	}
	f.Bytes += uint64(len(p.Payload))
	a.single(p)
	switch i := p.Opcode.Info(); {
	case i.Kind == ib.KindCongestion:
		a.note("the receiver saw congestion marks and asks to slow down")
	case i.Kind == ib.KindSelectiveAck:
		a.note("softrdma's own acknowledge: %d ranges are held behind a lost request", max(ib.Ranges(p.Payload), 0))
	case p.Opcode.Transport() == ib.UD:
	case response(i.Kind):
		a.response(f, p, i)
	default:
		a.request(f, p, i)
	}
	return a.findings
}

func response(k ib.Kind) bool {
	return k == ib.KindReadResponse || k == ib.KindAcknowledge || k == ib.KindAtomicAcknowledge
}

// single checks what a packet tells alone.
func (a *Analyzer) single(p *Packet) {
	if len(p.Payload) > maxMTU {
		a.fault(reason.LengthMTU, maxMTU, uint64(len(p.Payload)), "")
	}
	if p.PKey&0x7fff == 0 { // IBTA 10.9, C10-116: such a key is invalid
		a.fault(reason.PacketPKey, 0xffff, uint64(p.PKey), "")
	}
}

// flow finds or makes the state of a packet's direction. It is nil for damaged
// packets, whose QPN may be wrong, where there is none, and beyond the bound.
func (a *Analyzer) flow(p *Packet) *flow {
	k := flowKey{hosts{p.Src.Addr(), p.Dst.Addr()}, p.DestQPN, p.Opcode.Transport()}
	if f := a.flows[k]; f != nil && len(p.Data) >= ib.BTHLen {
		return f
	}
	if p.ICRC == Bad || p.Fault != ib.OK || len(a.order) >= maxFlows {
		return nil
	}
	f := &flow{Connection: Connection{Src: k.src, Dst: k.dst, QPN: k.qpn, Opcode: p.Opcode}}
	a.flows[k] = f
	a.order = append(a.order, f)
	a.between[k.hosts] = append(a.between[k.hosts], f)
	return f
}

// pair finds the other direction of a connection by the PSN of a response: it
// must be that of a request seen on exactly one flow between the two hosts.
// Packets do not name their sender's queue pair.
func (a *Analyzer) pair(g *flow, p *Packet) *flow {
	if g.peer != nil {
		return g.peer
	}
	all := a.between[hosts{g.Dst, g.Src}]
	if len(all) > maxCandidates {
		return nil
	}
	var found *flow
	for _, f := range all {
		if f == g || f.peer != nil || !f.asked(p.PSN) {
			continue
		}
		if found != nil {
			return nil
		}
		found = f
	}
	if found != nil {
		g.peer, found.peer = found, g
	}
	return found
}

func (a *Analyzer) note(format string, args ...any) {
	a.findings = append(a.findings, Finding{Level: Note, Text: fmt.Sprintf(format, args...)})
}

func (a *Analyzer) fault(r reason.Reason, expected, found uint64, text string) {
	a.find(Fault, r, expected, found, text)
}

func (a *Analyzer) find(l Level, r reason.Reason, expected, found uint64, text string) {
	a.findings = append(a.findings, Finding{l, reason.Detail{Reason: r, Expected: expected, Found: found}, text})
}

func (a *Analyzer) findPSN(l Level, r reason.Reason, expected, found psn.PSN, text string) {
	a.find(l, r, uint64(expected), uint64(found), text)
}
