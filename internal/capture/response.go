package capture

import (
	"fmt"

	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// window is the maximum distance in PSNs between the latest request and an
// answered one.
const window = 1 << 14

// asked reports whether a request with this PSN was seen recently.
func (f *flow) asked(p psn.PSN) bool {
	d := f.high.Sub(p)
	return f.seen && d > 0 && d <= window && !p.Before(f.base)
}

// response analyses a READ response or an acknowledge. It belongs to the flow g;
// the request that it answers belongs to the flow in the other direction.
func (a *Analyzer) response(g *flow, p *Packet, i *ib.Info) {
	f := a.pair(g, p)
	if i.Headers&ib.HasAETH != 0 {
		a.syndrome(g, f, p)
	}
	if f == nil || !f.seen {
		return // one direction only, or several possible connections
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

// find returns the READ or ATOMIC that a response with this PSN answers: the latest
// one in which the response has a valid place. If a READ was partly requested again,
// responses to the first request may still arrive.
func (f *flow) find(p psn.PSN, i *ib.Info) (latest *request) {
	for n := len(f.reads) - 1; n >= 0; n-- {
		r := &f.reads[n]
		if r.answeredByRead() != (i.Kind == ib.KindReadResponse) {
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

// placed reports whether a response may be number k of n.
func placed(k, n int, i *ib.Info) bool { return i.Last == (k == n-1) && (k != 0 || i.First) }

// oldest returns the PSN of the oldest remembered READ or ATOMIC, else the next PSN.
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
		a.findPSN(Warning, reason.ResponseStale, r.psn.Add(r.next), p.PSN, "READ response retransmitted or duplicated")
	}
	r.next = max(r.next, k+max(p.Run.Packets, 1))
	if p.Run.Packets > 1 {
		return // of one kind, and each as long as its READ says
	}
	if f.mtu == 0 && !(k == 0 && i.Last) {
		return // the number of responses is unknown
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

// opRead is the value of IBV_WR_RDMA_READ.
const opRead = 4

// syndrome explains a negative acknowledge.
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
			fmt.Sprintf("the responder had no receive posted for %s and requests a delay of %v", what, s.RNRTimer()))
		return
	}
	g.NAKs++
	switch s {
	case ib.NAKSequence:
		a.findPSN(Warning, reason.NAKSequence, p.PSN, p.PSN,
			fmt.Sprintf("the responder missed packets from PSN %v on and requests them again", p.PSN))
	case ib.NAKInvalidRequest:
		a.findPSN(Fault, reason.NAKInvalidRequest, at, p.PSN, "the responder found this request invalid: "+what)
	case ib.NAKRemoteAccess:
		a.findPSN(Fault, reason.NAKRemoteAccess, at, p.PSN, "the responder refused access to its memory: "+what)
	case ib.NAKRemoteOperational:
		a.findPSN(Fault, reason.NAKRemoteOperational, at, p.PSN, "the responder could not execute "+what)
	default:
		a.find(Fault, reason.NAKReserved, uint64(at), uint64(s), "")
	}
}

// message returns the request whose message the PSN belongs to, if it is known.
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
