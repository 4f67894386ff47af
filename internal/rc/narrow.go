package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/pathmtu"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

const (
	// narrowTries is the number of repetitions of a packet of the path MTU, without an answer, after which
	// the path may be too narrow for it. Short packets get through such a path, so nothing else tells.
	narrowTries = 2

	// leastProbeWait bounds the wait for the answer to a path probe from below.
	leastProbeWait = 20 * time.Millisecond
)

// A narrowPath is what a softrdma end does about a path that does not carry packets of its path MTU (package
// pathmtu). Few connections ever have one.
type narrowPath struct {
	search  pathmtu.Search
	token   uint32 // of the probes
	answer  own.PathProbe
	missing bool // the peer's packets of the path MTU do not arrive
	payload [own.PathProbeLen]byte
}

var padding [4096]byte

// narrowPathOf returns the state of the path, which it makes if there is none.
func narrowPathOf(q *QP) *narrowPath {
	if q.narrow == nil {
		q.narrow = &narrowPath{}
	}
	return q.narrow
}

// suspectPath notes that the oldest packet of a request, or of the peer's answer to it, was lost several times. If
// packets of the path MTU are among those, the path may be too narrow for them.
func suspectPath(q *QP, now time.Duration, w *request) {
	switch mtu := uint32(q.c.Port.Attr.PathMTU); {
	case w.length < mtu:
	case q.c.Peer == conn.Unknown:
		q.alive.ask(now)
	case !q.c.Selective():
	case w.responds():
		narrowPathOf(q).missing = true
	default:
		searchPath(q, now)
	}
}

// ask sends a peer that nothing was heard of a packet that is short enough for any path, and that every peer
// answers, a keepalive probe. The answer reports whether the peer is softrdma.
func (k *keepalive) ask(now time.Duration) {
	if k.probes == 0 {
		k.probes, k.began = 1, now
	}
	k.wanted = true // sent if that is allowed
}

// searchPath lets packets be fragmented, and begins to probe the path.
func searchPath(q *QP, now time.Duration) {
	n := narrowPathOf(q)
	if n.search.State() != pathmtu.Whole || !q.mayProbe() {
		return
	}
	// Like the PSN, the token is known to none but those who see the packets.
	n.token = q.req.max<<8 ^ uint32(q.resp.Expected())*0x9e3779b1
	n.search.Suspect(now, q.c.Port.Attr.PathMTU, max(q.req.recovery.tailProbeTime(), leastProbeWait))
	q.narrow.follow(q)
}

// TooLong implements machine.PathHandler.
func (q *QP) TooLong(now time.Duration) {
	switch q.c.Peer {
	case conn.Unknown:
		q.alive.ask(now)
	case conn.Selective:
		searchPath(q, now)
	}
}

// follow tells the owner of the connection what the search has decided.
func (n *narrowPath) follow(q *QP) {
	p, s := q.c.Port, &n.search
	before := p.Fragment
	p.Fragment = s.Fragments()
	if s.State() == pathmtu.Narrow && int(p.Passes) != s.Known() {
		q.c.Refuse(n.detail(q))
	}
	if s.State() != pathmtu.Searching {
		p.Passes = uint16(s.Known())
	}
	if before && !p.Fragment {
		q.c.Refuse(reason.Detail{Reason: reason.PathWhole, Expected: uint64(p.Attr.PathMTU), Found: uint64(s.Known())})
	}
}

// detail says what passes.
func (n *narrowPath) detail(q *QP) reason.Detail {
	return reason.Detail{Reason: reason.PathNarrow, Expected: uint64(q.c.Port.Attr.PathMTU), Found: uint64(n.search.Known())}
}

// deadline is when the search has something to do.
func (n *narrowPath) deadline(q *QP) time.Duration {
	if n == nil || !q.mayProbe() {
		return machine.Never
	}
	return n.search.Deadline()
}

// expire acts on that.
func (n *narrowPath) expire(now time.Duration, q *QP) {
	n.search.Expire(now)
	q.narrow.follow(q)
}

// owes reports whether a path probe or an answer to one is to be sent.
func (n *narrowPath) owes() bool {
	return n != nil && (n.search.Due() || n.missing || n.answer.Kind != 0)
}

// next produces it.
func (n *narrowPath) next(now time.Duration, q *QP, out *machine.Out) {
	a := &q.c.Port.Attr
	p, pad := n.answer, 0
	switch {
	case p.Kind != 0:
		n.answer = own.PathProbe{}
	case n.missing:
		n.missing, p = false, own.PathProbe{Kind: own.Missing, MTU: uint32(a.PathMTU)}
	default:
		mtu := n.search.Probe(now)
		p = own.PathProbe{Kind: own.Probe, Token: n.token, MTU: uint32(mtu)}
		// As long as the longest packet of that path MTU that the connection sends.
		pad = mtu + ib.RCWriteOnlyImm.Info().Len - ib.RCPathProbe.Info().Len - own.PathProbeLen
		out.Probe = true
	}
	out.BTH = ib.BTH{Opcode: ib.RCPathProbe, DestQPN: a.DestQPN, PSN: q.req.before()}
	out.Path = &a.Path
	out.Pieces = append(out.Pieces[:0], p.Append(n.payload[:0]))
	for left := pad; left > 0; left -= len(padding) {
		out.Pieces = append(out.Pieces, padding[:min(left, len(padding))])
	}
	out.Len = own.PathProbeLen + pad
}

// takePathProbe takes a path probe of the peer, or an answer.
func takePathProbe(q *QP, now time.Duration, in *machine.In) {
	p, ok := own.ParsePathProbe(in.Payload)
	port := in.Src.Port()
	switch {
	case !q.c.Selective() || !ok:
		q.c.Refuse(reason.Detail{Reason: reason.OpcodeUnsupported, Expected: uint64(ib.RC), Found: uint64(in.Opcode)})
	case !q.origins[ofRequests].Is(port) && !q.origins[ofAnswers].Is(port):
		q.c.Refuse(reason.Detail{Reason: reason.PacketSourcePort, Expected: uint64(q.origins[ofAnswers].Port()), Found: uint64(port)})
	case !q.resp.Acknowledged(in.PSN): // the sender's addresses, port and queue pair number are easily guessed
		q.c.Refuse(reason.Detail{Reason: reason.PathProbePSN, Expected: uint64(q.resp.Expected()), Found: uint64(in.PSN)})
	case p.Kind == own.Probe:
		narrowPathOf(q).answer = own.PathProbe{Kind: own.Answer, Token: p.Token, MTU: p.MTU}
	case q.c.Port.Attr.State < qp.RTS:
	case p.Kind == own.Missing:
		searchPath(q, now)
	case q.narrow != nil && p.Token == q.narrow.token:
		q.narrow.search.Answer(now, int(p.MTU))
		q.narrow.follow(q)
	}
}
