package capture

import (
	"fmt"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// restart is the distance between two PSNs from which on the later packet belongs
// to a new connection with the same queue pair numbers.
const restart = 1 << 16

// A flow is the state of one direction of a connection.
type flow struct {
	Connection
	peer *flow // the other direction

	seen bool    // a request was seen
	base psn.PSN // of the first request
	high psn.PSN // following the latest request
	mtu  int     // path MTU, 0 while unknown

	// The message at high. After a gap, known is false until a message starts.
	known     bool
	open      bool // the message continues
	last      ib.Opcode
	counted   bool   // the message has a RETH
	remaining uint64 // bytes left of the RETH's length

	hole   span      // PSNs still missing
	reads  []request // recent READs and ATOMICs, the latest at the end
	recent []request // recent messages, the latest at the end
}

type span struct{ from, to psn.PSN }

func (s span) holds(p psn.PSN) bool { return !p.Before(s.from) && p.Before(s.to) }

// A request is the first packet of a message.
type request struct {
	opcode ib.Opcode
	psn    psn.PSN
	addr   uint64
	rkey   uint32
	length uint32
	next   int // READ: number of the next expected response
}

func (r *request) kind() ib.Kind { return r.opcode.Info().Kind }

// count returns the number of PSNs that a request uses: a READ uses one for each
// response (IBTA 9.7.3). Without an MTU it returns an upper bound.
func (r *request) count(mtu int) int {
	if r.kind() != ib.KindReadRequest {
		return 1
	}
	if mtu == 0 {
		mtu = 256
	}
	return max(1, int((uint64(r.length)+uint64(mtu)-1)/uint64(mtu)))
}

// answeredByRead reports whether READ responses answer the request. That to a FLUSH or an
// ATOMIC WRITE has no data (IBTA A19).
func (r *request) answeredByRead() bool {
	switch r.kind() {
	case ib.KindReadRequest, ib.KindFlush, ib.KindAtomicWrite:
		return true
	}
	return false
}

func (r *request) String() string {
	s := fmt.Sprintf("%v PSN %v", r.opcode, r.psn)
	if h := r.opcode.Info().Headers; h&(ib.HasRETH|ib.HasAtomicETH) != 0 {
		s += fmt.Sprintf(", address 0x%x, length %d, R_Key 0x%x", r.addr, r.length, r.rkey)
	}
	return s
}

func newRequest(p *Packet, i *ib.Info) request {
	r := request{opcode: p.Opcode, psn: p.PSN}
	switch {
	case i.Headers&ib.HasRETH != 0:
		r.addr, r.rkey, r.length = p.RETH.Addr, p.RETH.RKey, p.RETH.Length
	case i.Headers&ib.HasAtomicETH != 0:
		r.addr, r.rkey, r.length = p.AtomicETH.Addr, p.AtomicETH.RKey, 8
	}
	return r
}

// request analyses a request packet in the order of a responder (IBTA 9.7.4): PSN,
// opcode sequence, length.
func (a *Analyzer) request(f *flow, p *Packet, i *ib.Info) {
	r := newRequest(p, i)
	f.settle(p.PSN)
	d := p.PSN.Sub(f.high)
	switch {
	case !f.seen:
		f.seen, f.base, f.high, f.known = true, p.PSN, p.PSN, i.First
	case (d > restart || d < -restart) && i.First:
		a.note("new connection: PSN starts at %v", p.PSN)
		*f = flow{Connection: f.Connection, seen: true, base: p.PSN, high: p.PSN, known: true}
	case d > 0:
		a.gap(f, p, d)
		f.known, f.open = i.First, false
	case d < 0:
		a.again(f, p, i, r)
		return
	}
	f.remember(r, i)
	f.high = p.PSN.Add(r.count(f.mtu))
	if p.Run.Packets > 1 {
		f.high = p.PSN.Add(p.Run.Packets)
	}
	if f.known {
		a.sequence(f, p, i)
		if p.Run.Packets <= 1 {
			a.length(f, p, i)
		} else {
			f.counted = false // the lengths of all but the first are not known
		}
	} else if i.Last {
		f.known = true
	}
	f.last, f.open = p.Opcode, !i.Last
}

// settle derives the MTU from the PSN that follows a READ with an unknown number
// of responses.
func (f *flow) settle(p psn.PSN) {
	if f.mtu != 0 || len(f.reads) == 0 || f.last.Info().Kind != ib.KindReadRequest {
		return
	}
	r := &f.reads[len(f.reads)-1]
	if f.high != r.psn.Add(r.count(0)) {
		return
	}
	for m := 256; m <= maxMTU; m *= 2 {
		if p == r.psn.Add(r.count(m)) {
			f.high = p
			if r.count(m) != r.count(2*m) && (m == 256 || r.count(m) != r.count(m/2)) {
				f.mtu = m
			}
			return
		}
	}
}

// setMTU sets the MTU to the payload length of a packet that must be full.
func (f *flow) setMTU(n int) {
	if f.mtu != 0 || n < 256 || n > maxMTU || n&(n-1) != 0 {
		return
	}
	f.mtu = n
	if f.last.Info().Kind == ib.KindReadRequest && len(f.reads) > 0 {
		r := &f.reads[len(f.reads)-1]
		if f.high == r.psn.Add(r.count(0)) {
			f.high = r.psn.Add(r.count(n))
		}
	}
}

func (a *Analyzer) gap(f *flow, p *Packet, d int) {
	f.Missing += uint64(d)
	f.hole = span{f.high, p.PSN}
	if p.Opcode.Transport() == ib.UC { // IBTA 9.8.2.2: the message is dropped silently
		a.findPSN(Warning, reason.SequenceGap, f.high, p.PSN, "")
		return
	}
	a.findPSN(Warning, reason.SequenceAhead, f.high, p.PSN, "")
}

// again analyses a request whose PSN precedes the latest one's.
func (a *Analyzer) again(f *flow, p *Packet, i *ib.Info, r request) {
	if end := p.PSN.Add(p.Run.Packets); f.high.Before(end) { // the rest of a run is new
		defer func() { f.high, f.known, f.open, f.last = end, i.Last, !i.Last, p.Opcode }()
	}
	if f.hole.holds(p.PSN) {
		a.note("fills the gap from %v to %v: retransmitted or late", f.hole.from, f.hole.to.Add(-1))
		if p.PSN == f.hole.from {
			f.hole.from = p.PSN.Add(max(r.count(f.mtu), p.Run.Packets))
		}
		f.remember(r, i)
		return
	}
	f.Retransmitted += uint64(max(p.Run.Packets, 1))
	a.findPSN(Warning, reason.SequenceDuplicate, f.high, p.PSN,
		fmt.Sprintf("retransmitted or duplicated: next PSN is %v, found %v", f.high, p.PSN))
	if r.kind() == ib.KindReadRequest { // it may request only a part of the first READ
		f.remember(r, i)
	}
}

func (f *flow) remember(r request, i *ib.Info) {
	if i.First {
		f.recent = push(f.recent, r, maxRecent)
	}
	if i.Kind == ib.KindFlush || i.Kind == ib.KindAtomicWrite {
		r.length = 0 // its response has no payload
	}
	if i.Asks() {
		f.reads = push(f.reads, r, maxReads)
	}
}

// push appends r and first drops the older half of a full list.
func push(list []request, r request, limit int) []request {
	if len(list) == limit {
		list = list[:copy(list, list[limit/2:])]
	}
	return append(list, r)
}

// sequence checks that the opcode may follow the last (IBTA 9.7.4.1.2, 9.8.2.2).
func (a *Analyzer) sequence(f *flow, p *Packet, i *ib.Info) {
	if f.open == i.First || f.open && f.last.Info().Kind != i.Kind {
		a.fault(reason.OpcodeSequence, uint64(f.last), uint64(p.Opcode),
			fmt.Sprintf("%v follows %v", p.Opcode, f.previous()))
		f.counted = false
	}
}

// previous describes the previous request packet.
func (f *flow) previous() string {
	if f.last.Info().Last && !f.open {
		return f.last.String() + ", which ended its message"
	}
	return f.last.String()
}

// length checks the payload against MTU and RETH (IBTA 9.7.4.1.6).
func (a *Analyzer) length(f *flow, p *Packet, i *ib.Info) {
	n := len(p.Payload)
	if !i.Last {
		f.setMTU(n)
	}
	switch {
	case f.mtu != 0 && n > f.mtu:
		a.fault(reason.LengthMTU, uint64(f.mtu), uint64(n), "")
	case !i.Last && n != f.mtu:
		a.fault(reason.LengthShortSegment, uint64(max(f.mtu, 256)), uint64(n), "")
	case i.Last && !i.First && n == 0:
		a.fault(reason.LengthShortSegment, 1, 0, "a Last packet must have a payload")
	}
	if i.Kind != ib.KindWrite {
		f.counted = false
		return
	}
	if i.First {
		f.counted, f.remaining = true, uint64(p.RETH.Length)
	}
	if !f.counted {
		return
	}
	if uint64(n) > f.remaining {
		a.fault(reason.LengthExceedsRETH, f.remaining, uint64(n), "")
		f.counted = false
		return
	}
	if i.Last && uint64(n) < f.remaining {
		a.fault(reason.LengthBelowRETH, f.remaining, uint64(n), "")
	}
	f.remaining -= uint64(n)
}
