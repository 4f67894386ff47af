package adapter

import (
	"fmt"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A QPConfig says what a queue pair is made of. Depths are what the rings hold
// at least; with an SRQ there is no private receive queue.
type QPConfig struct {
	Type               qp.Type
	SendCQ, RecvCQ     *CQ
	SRQ                *SRQ
	SendDepth, SendSGE int
	RecvDepth, RecvSGE int
	Inline             int
	SignalAll          bool
	SQ                 *queue.SendRing     // nil makes one of SendDepth, SendSGE and Inline; else in memory that another process posts to
	RQ                 *queue.RecvRing     // nil makes one of RecvDepth and RecvSGE
	Control            congestion.Kind     // of a connection; Default takes the device's
	Recovery           congestion.Recovery // the same
	PeerTimeout        time.Duration       // the same; 0 takes the device's, negative means no limit
	PeerProbe          time.Duration       // see machine.Port

	xrcd *XRCD // of an XRC target
}

// CreateQP makes a queue pair in state RESET with an unpredictable number.
func (p *PD) CreateQP(c *QPConfig) (*QP, error) {
	d := p.dev
	transport, err := d.transportOf(c.Type)
	if err != nil {
		return nil, err
	}
	if err := p.add(&d.counts.QP); err != nil {
		return nil, err
	}
	if err := c.hold(); err != nil {
		p.remove(&d.counts.QP)
		return nil, err
	}
	q := p.newQP(c, transport, d.lanes[int(d.placed.Add(1))%len(d.lanes)])
	if err := q.lane.place(q); err != nil {
		q.release()
		return nil, err
	}
	q.sanitized()
	return q, nil
}

// newQP makes a queue pair with its rings, which has no number yet.
func (p *PD) newQP(c *QPConfig, transport *machine.Transport, l *lane) *QP {
	d := p.dev
	q := &QP{pd: p, lane: l, sendCQ: c.SendCQ, recvCQ: c.RecvCQ, srq: c.SRQ, methods: methods{c.Control, c.Recovery}, transport: transport}
	q.inMemory = d.cfg.MemoryOnly // nothing comes from the network then
	q.entry.Init((*qpTask)(q))
	q.sharing.Init(&q.Port, &q.entry)
	if q.control == congestion.Default {
		q.control = d.cfg.Control
	}
	if q.recovery == congestion.DefaultRecovery {
		q.recovery = d.cfg.Recovery
	}
	q.Port = machine.Port{
		Type: c.Type, PD: p.ID, RecvPD: p.ID, Memory: d.Memory, SQSigAll: c.SignalAll,
		SQ: c.SQ, SendCQ: q, RecvCQ: received{q}, Host: d, Window: d.cfg.Window, AHs: p.path,
	}
	if transport.Acknowledged && c.Type != qp.XRCRecv { // IBTA A14: a target sends no request
		q.PeerTimeout = peerTimeout(c.PeerTimeout, d.cfg.PeerTimeout)
		if q.PeerTimeout > 0 && c.PeerProbe > 0 {
			q.PeerProbe = max(c.PeerProbe, leastPeerTimeout/4)
		}
	}
	if q.SQ == nil {
		q.SQ = queue.NewSendRing(c.SendDepth, c.SendSGE, c.Inline)
	}
	if c.Type == qp.XRCSend {
		return q // it receives nothing
	}
	if c.xrcd != nil {
		q.xrcd, q.Aim = c.xrcd, q.aim
		return q
	}
	if c.SRQ != nil {
		q.RQ, q.RecvPD = c.SRQ, c.SRQ.pd.ID // IBTA 10.2.9: its requests name keys of its own domain
		return q
	}
	q.Recv, q.sharedRecv = c.RQ, c.RQ != nil
	if q.Recv == nil {
		q.Recv = queue.NewRecvRing(c.RecvDepth, c.RecvSGE)
	}
	q.RQ = recvQueue{q}
	return q
}

// hold counts the new queue pair as a user of its queues.
func (c *QPConfig) hold() error {
	list := []*object.Uses{&c.SendCQ.uses, &c.RecvCQ.uses}
	if c.SRQ != nil {
		list = append(list, &c.SRQ.uses)
	}
	for i, u := range list {
		if u.Hold() {
			continue
		}
		for _, u := range list[:i] {
			u.Drop()
		}
		return fmt.Errorf("%s of the queue pair: %w", []string{"send completion queue", "receive completion queue", "shared receive queue"}[i], ErrDestroyed)
	}
	return nil
}

// leastPeerTimeout bounds the cost of keep-alive: a probe is sent every quarter.
const leastPeerTimeout = 100 * time.Millisecond

// peerTimeout is how long the peer of a connection may be silent, by its own choice and that of
// the device.
func peerTimeout(own, device time.Duration) time.Duration {
	if own == 0 {
		own = device
	}
	if own <= 0 {
		return 0
	}
	return max(own, leastPeerTimeout)
}
