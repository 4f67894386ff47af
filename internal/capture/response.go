package capture

import (
	"fmt"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// window is how far behind the latest request an answered one may lie.
const window = 1 << 14

// asked tells whether a request with this PSN was seen, not long ago.
func (f *flow) asked(p psn.PSN) bool {
	d := f.high.Sub(p)
	return f.seen && d > 0 && d <= window && !p.Before(f.base)
}

// response takes a READ response or an acknowledge. The flow g carries it; the
// request that it answers went the other way.
func (a *Analyzer) response(g *flow, p *Packet, i *ib.Info) {
	f := a.pair(g, p)
	if i.Headers&ib.HasAETH != 0 {
		a.syndrome(g, f, p)
	}
	if f == nil || !f.seen {
		return // one direction only, or several connections that look alike
	}
	if i.Kind == ib.KindReadResponse && !i.Last {
		f.setMTU(len(p.Payload))
	}
	if !p.PSN.Before(f.high) {
		a.findPSN(Fault, reason.ResponseGhost, f.high, p.PSN, "")
		return
	}
	if i.Kind == ib.KindAcknowledge || p.PSN.Before(f.base) {
		return
	}
	r := f.find(p.PSN, i)
	if r == nil {
		a.findPSN(Fault, reason.ResponseUnexpected, f.oldest(), p.PSN,
			fmt.Sprintf("%v without a request", p.Opcode))
		return
	}
	if i.Kind == ib.KindReadResponse {
		a.readResponse(f, r, p, i)
	}
}

// find gives the READ or ATOMIC that the PSN answers: the latest one in which the
// response has its place. A READ that was asked for again in part may still get
// the answers to the first request, and so may one that has none of its own.
func (f *flow) find(p psn.PSN, i *ib.Info) (latest *request) {
	for n := len(f.reads) - 1; n >= 0; n-- {
		r := &f.reads[n]
		// That to an ATOMIC WRITE is a READ response as well (IBTA A19).
		if read := r.opcode == ib.RCReadRequest || r.opcode == ib.RCAtomicWrite; read != (i.Kind == ib.KindReadResponse) {
			continue
		}
		d := p.Sub(r.psn)
		if d < 0 || d >= r.count(f.mtu) {
			continue
		}
		if i.Kind != ib.KindReadResponse || f.mtu == 0 || placed(d, r.count(f.mtu), i) {
			return r
		}
		if latest == nil {
			latest = r
		}
	}
	return latest
}

// placed tells whether a response may be number k of n.
func placed(k, n int, i *ib.Info) bool { return i.Last == (k == n-1) && (k != 0 || i.First) }

// oldest is the PSN of the oldest READ or ATOMIC remembered, or the next PSN.
func (f *flow) oldest() psn.PSN {
	if len(f.reads) > 0 {
		return f.reads[0].psn
	}
	return f.high
}

// readResponse checks a response's place in its READ and its length (IBTA
// 9.7.6).
func (a *Analyzer) readResponse(f *flow, r *request, p *Packet, i *ib.Info) {
	k := p.PSN.Sub(r.psn)
	switch {
	case k > r.next:
		a.findPSN(Warning, reason.ResponseGap, r.psn.Add(r.next), p.PSN,
			fmt.Sprintf("%d READ responses are missing from PSN %v on", k-r.next, r.psn.Add(r.next)))
	case k < r.next:
		a.findPSN(Warning, reason.ResponseStale, r.psn.Add(r.next), p.PSN, "READ response sent again or doubled")
	}
	r.next = max(r.next, k+1)
	if f.mtu == 0 && !(k == 0 && i.Last) {
		return // how many responses there are is not known
	}
	n := r.count(f.mtu)
	if f.mtu == 0 {
		n = 1
	}
	if !placed(k, n, i) {
		a.fault(reason.ResponseOpcode, opRead, uint64(p.Opcode),
			fmt.Sprintf("%v is response %d of %d", p.Opcode, k+1, n))
		return
	}
	want := int(r.length)
	if f.mtu != 0 {
		want = min(f.mtu, int(r.length)-k*f.mtu)
	}
	if len(p.Payload) != want {
		a.fault(reason.ResponseLength, uint64(want), uint64(len(p.Payload)), "")
	}
}

// opRead is the work request's operation, as ibv_wr_opcode numbers it.
const opRead = 4

// syndrome explains an acknowledge that is none.
func (a *Analyzer) syndrome(g, f *flow, p *Packet) {
	s := p.AETH.Syndrome
	if s.IsACK() {
		return
	}
	at := p.PSN
	what := "the request"
	if r := f.message(at); r != nil {
		at, what = r.psn, r.String()
	}
	if s.IsRNR() {
		g.RNRs++
		a.find(Warning, reason.NoReceive, uint64(s&0x1f), uint64(p.AETH.MSN),
			fmt.Sprintf("the receiver had no receive posted for %s, and asks to wait %v", what, s.RNRTimer()))
		return
	}
	g.NAKs++
	switch s {
	case ib.NAKSequence:
		a.findPSN(Warning, reason.NAKSequence, p.PSN, p.PSN,
			fmt.Sprintf("packets from PSN %v on did not reach the receiver, and it wants them again", p.PSN))
	case ib.NAKInvalidRequest:
		a.findPSN(Fault, reason.NAKInvalidRequest, at, p.PSN, "the receiver found this request invalid: "+what)
	case ib.NAKRemoteAccess:
		a.findPSN(Fault, reason.NAKRemoteAccess, at, p.PSN, "the receiver refused access to its memory: "+what)
	case ib.NAKRemoteOperational:
		a.findPSN(Fault, reason.NAKRemoteOperational, at, p.PSN, "the receiver could not carry out "+what)
	default:
		a.find(Fault, reason.NAKReserved, uint64(at), uint64(s), "")
	}
}

// message finds the message that a PSN belongs to.
func (f *flow) message(p psn.PSN) *request {
	if f == nil {
		return nil
	}
	for n := len(f.recent) - 1; n >= 0; n-- {
		if r := &f.recent[n]; !p.Before(r.psn) {
			return r
		}
	}
	return nil
}
