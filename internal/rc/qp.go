package rc

import (
	"encoding/binary"
	"net/netip"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/responder"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A QP is the transport half of a reliable connection's queue pair. It implements
// machine.Machine.
type QP struct {
	c    conn.Conn
	req  requester
	resp responder.Responder

	store *Store // nil without selective acknowledges
	kind  congestion.Kind
	tuned *congestion.Tuning
	ctl   congestion.Control
	paces bool // what ctl says

	origins [origins]machine.Origin
	heard   time.Duration // when the last packet from one of them arrived
	alive   keepalive
	check   portCheck
	narrow  *narrowPath // nil unless the path was in doubt

	notifier machine.Notifier
	paceAt   time.Duration // the control lets data leave again

	turn        uint8 // packets of the present turn; see burst
	established bool  // EventCommEst was raised
	uninformed  bool  // CongestionUninformed was said of the present control
}

var _ machine.Machine = (*QP)(nil)

// A Config is what a queue pair has beyond the standard. The zero value recovers from
// losses as the standard has it, and has the default congestion control.
type Config struct {
	// Store makes selective acknowledges possible.
	Store *Store
	// Control is the congestion control.
	Control congestion.Kind
	// Tuning is its parameters, nil for its own.
	Tuning *congestion.Tuning
	// KeepReasons does not tell the peer why its requests are refused.
	KeepReasons bool
}

// New makes the machine of a queue pair.
func New(p *machine.Port, c Config) *QP {
	q := &QP{store: c.Store, kind: c.Control, tuned: c.Tuning, paceAt: machine.Never}
	q.c = conn.Conn{Port: p, Done: machine.NewCompletions(p), Stop: q.req.recovery.stop, KeepReasons: c.KeepReasons}
	q.control(congestion.Limits{Window: p.Window, Packet: overhead})
	q.alive.at = machine.Never
	q.req.init(q)
	q.resp.Init(&q.c, c.Store.held())
	return q
}

// control makes the congestion control.
func (q *QP) control(l congestion.Limits) {
	q.ctl = congestion.New(q.kind, l)
	q.paces = q.ctl.Paces()
	q.uninformed = false
}

// PeerSays notes why the peer ends the connection, and reports whether it says so for the first time.
func (q *QP) PeerSays(d reason.Detail) (first bool) { return q.c.Done.PeerSays(d) }

// Receive implements machine.Receiver.
func (q *QP) Receive(now time.Duration, in *machine.In) {
	in.Drop()
	st := q.c.Port.Attr.State
	if st < qp.RTR || st == qp.Err {
		q.c.Refuse(reason.Detail{Reason: reason.PacketQPState, Expected: uint64(qp.RTR), Found: uint64(st)})
		return
	}
	if !q.fromPeer(in) {
		q.c.Refuse(reason.Detail{Reason: reason.PacketSource, Expected: low32(q.c.Port.Attr.Path.Dst.Addr()), Found: low32(in.Src.Addr())})
		return
	}
	info := in.Opcode.Info()
	if info != nil && info.Kind == ib.KindCongestion {
		if q.plausibleNotification(in) {
			q.notified(now)
		}
		return
	}
	if info != nil && info.Kind == ib.KindPathProbe {
		takePathProbe(q, now, in)
		return
	}
	if info == nil || in.Opcode.Transport() != ib.RC {
		q.c.Refuse(reason.Detail{Reason: reason.OpcodeUnsupported, Expected: uint64(ib.RC), Found: uint64(in.Opcode)})
		return
	}
	if !q.genuine(now, in, info) {
		return
	}
	if q.notifier.Look(now, in, q.c.Port) && info.Kind == ib.KindReadResponse {
		q.req.responseMarked(now)
	}
	if q.c.Trusted {
		q.raiseEstablished(info)
		q.learnPeer(in, info)
	}
	switch answer := isAnswer(info.Kind); {
	case answer && in.Lost:
		q.req.completer.responseLost(now, in, info)
	case answer:
		q.req.completer.receive(now, in, info)
	case in.Lost:
		q.resp.Lost(in, info)
	default:
		if in.Wide {
			q.resp.Widen(now, in)
		}
		q.resp.Receive(in, info)
		if len(in.Hops) != 0 {
			q.resp.Inform(in)
		}
		q.resp.ScheduleLook(now)
	}
	q.settle()
}

// raiseEstablished raises Communication Established with the peer's first packet in RTR,
// which shows that the peer is there (IBTA 10.3.1.3, 11.6.3.1).
func (q *QP) raiseEstablished(info *ib.Info) {
	if q.c.Port.Attr.State == qp.RTR && !q.established && q.origins[originOf(info.Kind)].Known() {
		q.established = true
		q.c.Port.Host.Event(q.c.Port, machine.EventCommEst, reason.Detail{})
	}
}

// fromPeer reports whether a packet comes from the address that the queue pair is
// connected to.
func (q *QP) fromPeer(in *machine.In) bool {
	src, want := in.Src.Addr(), q.c.Port.Attr.Path.Dst.Addr()
	return src == want || src.Unmap() == want.Unmap()
}

// isAnswer reports whether the requester takes a kind of packet; the responder takes the
// others.
func isAnswer(k ib.Kind) bool {
	switch k {
	case ib.KindReadResponse, ib.KindAcknowledge, ib.KindAtomicAcknowledge, ib.KindSelectiveAck, ib.KindReason, ib.KindTelemetry:
		return true
	}
	return false
}

// settle flushes in the error state, and ends the draining of the send queue.
func (q *QP) settle() {
	switch q.c.Port.Attr.State {
	case qp.Err:
		q.flush()
	case qp.SQD:
		q.req.drain()
	}
}

// Capabilities implements machine.Machine.
func (q *QP) Capabilities() machine.Capabilities {
	return machine.Capabilities{Receiver: q, InFlight: q, Follower: q, Continuer: q, Unreachable: q, Revoker: q}
}

// Transition implements machine.Machine.
func (q *QP) Transition(now time.Duration, from qp.State) {
	a := &q.c.Port.Attr
	switch a.State {
	case qp.Reset:
		q.reset()
	case qp.RTR:
		q.resp.Start()
	case qp.RTS:
		a.SQDraining = false
		if from == qp.RTR {
			q.req.start()
			q.control(q.req.limits())
			q.startKeepalive(now)
		}
	case qp.SQD:
		a.SQDraining = true
		q.req.drain()
	case qp.Err:
		if from != qp.Err {
			q.req.recovery.stop()
			q.resp.Stop()
		}
		q.flush()
	}
}

// reset forgets everything, the posted work requests too (IBTA 10.3.1.1).
func (q *QP) reset() {
	q.req.reset()
	q.resp.Reset()
	q.c.Done.Reset()
	q.established, q.turn = false, 0
	q.c.Peer, q.notifier, q.paceAt = conn.Unknown, machine.Notifier{}, machine.Never
	q.origins, q.heard = [origins]machine.Origin{}, 0
	q.alive, q.check, q.narrow = keepalive{at: machine.Never}, portCheck{}, nil
	q.c.Port.Fragment, q.c.Port.Passes = false, 0
}

// flush completes all posted work requests with WR_FLUSH_ERR (IBTA 10.3.1.7, 10.8.3),
// except those of a shared receive queue.
func (q *QP) flush() {
	q.req.sq.Flush(&q.c.Done)
	q.resp.Flush()
	q.c.Done.LastWQE()
}

// low32 is the last 32 bits of an address, as the reason PACKET_SOURCE shows it.
func low32(a netip.Addr) uint64 {
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}

// Revoked implements machine.Revoker.
func (q *QP) Revoked() { q.resp.Revoked() }
