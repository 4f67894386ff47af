package cm

import (
	"bytes"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// receiveREP handles the peer's answer on the active side.
func (m *Manager) receiveREP(now time.Duration, p *mad.REP) {
	c := m.conns[p.RemoteID]
	if c == nil || !c.known && c.state != ReqSent && c.state != MRAReqReceived {
		// IBTA 12.6.7.2: the peer accepted a request that this end no longer has. Linux lets
		// the peer time out.
		m.refuse(reason.CMCommID, uint64(p.RemoteID), uint64(p.LocalID))
		m.answerREJ(mad.RejectInvalidCommID, mad.OfREP, p.LocalID, p.RemoteID, nil)
		return
	}
	if m.fromPeer(c) == nil {
		return
	}
	if c.known {
		m.duplicateREP(c, p)
		return
	}
	key := remoteKey{m.home(c.peer()), p.GUID, p.LocalID}
	if m.remotes[key] != nil {
		c.duplicate(mad.AttrREP)
		return
	}
	key.num = p.QPN
	if old := m.qpns[key]; old != nil {
		m.answerREJ(mad.RejectStaleConnection, mad.OfREP, p.LocalID, p.RemoteID, nil)
		m.stale(now, old)
		return
	}
	c.takeREP(p)
	c.tell(Event{Kind: EventRepReceived, REP: p, Private: p.Private[:], Source: m.received.from()})
}

func (c *Conn) takeREP(p *mad.REP) {
	m := c.m
	c.answered()
	c.leaveCrossing()
	c.state, c.known = RepReceived, true
	c.remoteID, c.remoteQPN, c.guid = p.LocalID, p.QPN, p.GUID
	c.sendPSN, c.rnrRetry = p.StartingPSN, p.RNRRetryCount
	c.resources, c.depth = p.InitiatorDepth, p.ResponderResources
	c.ack = ackTimeout(p.TargetAckDelay, c.ack-1)
	m.remotes[c.key(c.remoteID)], c.hasRemote = c, true
	m.qpns[c.key(c.remoteQPN)], c.hasQPN = c, true
}

// duplicateREP answers a REP to a connection that has one already.
func (m *Manager) duplicateREP(c *Conn, p *mad.REP) {
	if p.LocalID != c.remoteID {
		// A duplicate of the REQ made a second connection on the peer, which has no other end
		// (IBTA 12.6.7.2).
		m.refuse(reason.CMCommID, uint64(p.RemoteID), uint64(p.LocalID))
		m.answerREJ(mad.RejectInvalidCommInstance, mad.OfREP, p.LocalID, p.RemoteID, nil)
		return
	}
	c.duplicate(mad.AttrREP)
	switch c.state {
	case Established: // the RTU was lost
		c.sendRTU()
	case MRARepSent:
		c.sendMRA(mad.OfREP)
	}
}

// Ready sends the RTU, and the connection is established. The error is a *StateError or
// an *Error.
func (c *Conn) Ready(_ time.Duration, private []byte) error {
	const op = "ready"
	if err := c.need(op, RepReceived, MRARepSent); err != nil {
		return err
	}
	if err := privateFits(op, "private", len(private), mad.RTUPrivateLen); err != nil {
		return err
	}
	c.private = bytes.Clone(private)
	c.state = Established
	c.sendRTU()
	return nil
}

func (c *Conn) sendRTU() {
	u := mad.RTU{LocalID: c.localID, RemoteID: c.remoteID}
	copy(u.Private[:], c.private)
	d := c.m.message(mad.AttrRTU, c.tid, &u)
	c.send(d)
}

func (m *Manager) receiveRTU(u *mad.RTU) {
	c := m.find(u.RemoteID, u.LocalID)
	if c == nil {
		return
	}
	switch {
	case c.state == RepSent || c.state == MRARepReceived:
		c.confirmed()
		c.tell(Event{Kind: EventRtuReceived, Private: u.Private[:], Source: m.received.from()})
	case c.state == Timewait && c.rejection != 0:
		// The peer is ready for a connection that this end withdrew: the REJ was lost.
		c.wrongState(RepSent)
		c.sendREJ(c.rejection, m.infoFor(c.rejection), nil)
	default:
		c.duplicate(mad.AttrRTU)
	}
}

// Establish says that the peer's first packet arrived on the queue pair before its RTU, which
// proves the same (IBTA 12.9.6, communication established). The error is a *StateError.
func (c *Conn) Establish(_ time.Duration) error {
	if err := c.need("establish", RepSent, MRARepReceived); err != nil {
		return err
	}
	c.confirmed()
	c.tell(Event{Kind: EventEstablished})
	return nil
}

// confirmed records that the peer has the REP.
func (c *Conn) confirmed() {
	c.answered()
	c.proved()
	c.leaveHalfOpen()
	c.state = Established
}

// Delay asks the peer to wait longer for the answer to its REQ or REP: it sends an MRA,
// with DelayOnDuplicate only when the message comes again. The service timeout is an
// exponent to 4.096 µs. The error is a *StateError or an *Error.
func (c *Conn) Delay(_ time.Duration, serviceTimeout uint8, private []byte) error {
	const op = "delay"
	if err := c.need(op, ReqReceived, RepReceived); err != nil {
		return err
	}
	if err := privateFits(op, "private", len(private), mad.MRAPrivateLen); err != nil {
		return err
	}
	if err := within(op, limit{"serviceTimeout", uint64(serviceTimeout &^ DelayOnDuplicate), 31}); err != nil {
		return err
	}
	of := mad.OfREQ
	if c.state == RepReceived {
		of = mad.OfREP
		c.state = MRARepSent
	} else {
		c.state = MRAReqSent
	}
	c.serviceTimeout, c.private = serviceTimeout&^DelayOnDuplicate, bytes.Clone(private)
	if serviceTimeout&DelayOnDuplicate == 0 {
		c.sendMRA(of)
	}
	return nil
}

func (c *Conn) sendMRA(of mad.Which) {
	a := mad.MRA{LocalID: c.localID, RemoteID: c.remoteID, Of: of, ServiceTimeout: c.serviceTimeout}
	copy(a.Private[:], c.private)
	d := c.m.message(mad.AttrMRA, c.tid, &a)
	c.send(d)
}

// receiveMRA extends the wait by the service timeout and the time in the network (IBTA
// 12.9.8.7).
func (m *Manager) receiveMRA(now time.Duration, a *mad.MRA) {
	var c *Conn
	if a.Of == mad.OfREQ {
		c = m.findAsking(a.RemoteID, a.LocalID)
	} else {
		c = m.find(a.RemoteID, a.LocalID)
	}
	if c == nil {
		return
	}
	switch {
	case c.state == ReqSent && a.Of == mad.OfREQ:
		c.state = MRAReqReceived
	case c.state == RepSent && a.Of == mad.OfREP:
		c.state = MRARepReceived
		c.proved()
	case c.state == MRAReqReceived || c.state == MRARepReceived:
		c.duplicate(mad.AttrMRA)
		return
	default:
		c.wrongState(ReqSent)
		return
	}
	if c.hint.Reason != reason.None { // the peer is alive, whatever the network reported
		c.hint, c.left = reason.Detail{}, c.retries
	}
	c.early = 0
	c.wait = min(duration(a.ServiceTimeout)+duration(c.ack), maxDelay)
	m.timers.set(&c.timer, now+c.wait)
	c.tell(Event{Kind: EventMraReceived, ServiceTimeout: a.ServiceTimeout, Private: a.Private[:], Source: m.received.from()})
}

// receiveLAP refuses an alternate path: RoCE has none (annex A16). Linux drops the LAP
// silently, and its sender times out.
func (m *Manager) receiveLAP(l *mad.LAP) {
	m.refuse(reason.CMAlternatePath, 0, uint64(mad.AttrLAP))
	a := mad.APR{LocalID: l.RemoteID, RemoteID: l.LocalID, Status: mad.APInvalidCommID}
	if c := m.conns[l.RemoteID]; c != nil && c.known && c.remoteID == l.LocalID {
		a.Status = mad.APUnsupported
	}
	d := m.message(mad.AttrAPR, m.received.header.TID, &a)
	m.answer(d)
}
