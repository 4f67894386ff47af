package capture

import (
	"fmt"
	"net/netip"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// Bounds of an Analyzer's memory, for any file.
const (
	maxFlows      = 16384 // connections, counted per direction
	maxCandidates = 1024  // connections between two hosts that are searched for the other direction
	maxReads      = 128   // READs and ATOMICs per connection
	maxRecent     = 16    // messages per connection that are remembered to explain NAKs
	maxMTU        = 4096
)

// An Analyzer follows connections through a capture and reports what is wrong with
// each packet. It cannot distinguish packets that the capture missed from packets
// that the network lost.
type Analyzer struct {
	flows    map[flowKey]*flow
	order    []*flow
	between  map[hosts][]*flow
	findings []Finding

	untracked uint64
}

// NewAnalyzer returns an Analyzer that has seen no packets.
func NewAnalyzer() *Analyzer {
	return &Analyzer{flows: make(map[flowKey]*flow), between: make(map[hosts][]*flow)}
}

// hosts are the ends of a flow. Only those of InfiniBand have a port: their LID.
type hosts struct{ src, dst netip.AddrPort }

// Hosts returns what identifies the ends of the packet's connection, as in Connection.
func (p *Packet) Hosts() (src, dst netip.AddrPort) {
	if p.Native {
		return p.Src, p.Dst
	}
	return netip.AddrPortFrom(p.Src.Addr(), 0), netip.AddrPortFrom(p.Dst.Addr(), 0)
}

type flowKey struct {
	hosts
	qpn       uint32
	transport ib.Transport
}

// A Connection has the counts for one direction of a connection.
type Connection struct {
	Src, Dst      netip.AddrPort // without ports; of InfiniBand see qp.LIDEndpoint
	Native        bool           // InfiniBand
	QPN           uint32         // of the receiver
	PeerQPN       uint32         // of the sender, or 0 if unknown
	Opcode        ib.Opcode
	Packets       uint64
	Bytes         uint64 // of payload
	Retransmitted uint64
	Missing       uint64 // packets missing in sequence
	RNRs          uint64 // RNR NAKs
	NAKs          uint64 // other NAKs
	Malformed     uint64
	BadICRC       uint64
	Marked        uint64 // with congestion experienced
}

// Endpoints returns the connection's source and destination as text.
func (c *Connection) Endpoints() (src, dst string) {
	if c.Native {
		return nativeEndpoint(c.Src), nativeEndpoint(c.Dst)
	}
	return c.Src.Addr().String(), c.Dst.Addr().String()
}

// Connections returns the counts in the order in which the connections appeared.
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

// Untracked returns the number of packets that belong to no Connection: corrupted
// packets of connections without a good packet, and packets of connections beyond
// the limit.
func (a *Analyzer) Untracked() uint64 { return a.untracked }

// Add analyses the next packet and returns its findings. The slice is valid until
// the next call.
func (a *Analyzer) Add(p *Packet) []Finding {
	a.findings = a.findings[:0]
	f := a.flow(p)
	if f == nil {
		a.untracked++
		f = &flow{} // checked without context
	}
	f.Packets += uint64(max(p.Run.Packets, 1))
	if p.ECN() == 3 {
		f.Marked++
		a.note("congestion experienced: a router marked the packet")
	}
	if p.Reassembled {
		a.note("the packet came in IP fragments, which adapters do not put together")
	}
	// A packet that the receiver drops does not change the connection's state
	// (IBTA 9.6).
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
	if f.Bytes += uint64(len(p.Payload)); p.Run.Packets > 1 {
		f.Bytes += p.Run.Bytes - uint64(len(p.Payload))
	}
	a.single(p)
	switch i := p.Opcode.Info(); {
	case i.Kind == ib.KindCongestion:
		a.note("congestion notification: the receiver got packets that a router had marked")
	case p.Truncated && (i.Kind == ib.KindSelectiveAck || i.Kind == ib.KindReason || i.Kind == ib.KindTelemetry): // what it says is in the payload
	case i.Kind == ib.KindSelectiveAck:
		a.note("softrdma's selective acknowledge: %d ranges received after a lost request", max(own.Ranges(p.Payload), 0))
	case i.Kind == ib.KindTelemetry:
		if _, hops, ok := own.ParseTelemetry(p.Payload); ok {
			a.note("softrdma's acknowledge with telemetry of %d links", len(hops)/own.HopLen)
		}
	case i.Kind == ib.KindPathProbe:
		if probe, ok := own.ParsePathProbe(p.Payload); ok && !p.Truncated {
			a.note("softrdma's %v path MTU %d", probe.Kind, probe.MTU)
		}
	case i.Kind == ib.KindReason:
		if r, ok := own.ParseReason(p.Payload); ok {
			d := reason.Detail{Reason: reason.Reason(r.Number), Expected: r.Expected, Found: r.Found}
			a.note("softrdma's reason of the NAK that follows: %s", d.Said())
		}
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

// single makes the checks that need no other packet.
func (a *Analyzer) single(p *Packet) {
	if len(p.Payload) > maxMTU && p.Opcode != ib.RCPathProbe { // which is as long as packets with longer headers
		a.fault(reason.LengthMTU, maxMTU, uint64(len(p.Payload)), "")
	}
	if p.PKey&0x7fff == 0 { // IBTA 10.9, C10-116: such a key is invalid
		a.fault(reason.PacketPKey, 0xffff, uint64(p.PKey), "")
	}
}

// flow returns the state of the packet's direction of a connection, and creates it
// if needed. It returns nil if there is none and the packet is corrupted, as its QPN
// may be wrong, or the limit is reached.
func (a *Analyzer) flow(p *Packet) *flow {
	src, dst := p.Hosts()
	k := flowKey{hosts{src, dst}, p.DestQPN, p.Opcode.Transport()}
	if f := a.flows[k]; f != nil && len(p.Data) >= ib.BTHLen {
		return f
	}
	if p.ICRC == Bad || p.Fault != ib.OK || len(a.order) >= maxFlows {
		return nil
	}
	f := &flow{Connection: Connection{Src: k.src, Dst: k.dst, Native: p.Native, QPN: k.qpn, Opcode: p.Opcode}}
	a.flows[k] = f
	a.order = append(a.order, f)
	a.between[k.hosts] = append(a.between[k.hosts], f)
	return f
}

// pair returns the flow of the requests that the flow g answers. Packets do not
// contain their sender's QPN, so pair searches by the response's PSN: exactly one
// flow between the two hosts must have had a request with it.
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
