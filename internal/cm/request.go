package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// receiveREQ takes a REQ on the passive side. The order of the checks is Linux's:
// duplicate, stale connection, listener, then what the device supports. Then a sender
// that has not proved its address may be challenged. It reports whether the request is
// finished: one from a proven sender may have to wait for room.
func (m *Manager) receiveREQ(now time.Duration, q *mad.REQ, proven bool) (done bool) {
	r := &m.received
	if port, ok := q.Announcement.Port(); ok {
		m.announced(port)
	}
	key := remoteKey{m.home(r.from()), q.GUID, q.LocalID}
	if c := m.remotes[key]; c != nil {
		m.duplicateREQ(c)
		return true
	}
	crossing := m.crossed(q)
	if crossing != nil && m.staysActive(crossing, q) {
		m.refuse(reason.CMSimultaneous, uint64(crossing.localQPN), uint64(q.QPN))
		return true
	}
	key.num = q.QPN
	if old := m.qpns[key]; old != nil { // IBTA 12.4.1: another REQ for a connected queue pair
		m.answerREJ(mad.RejectStaleConnection, mad.OfREQ, q.LocalID, 0, nil)
		m.stale(now, old)
		return true
	}
	l := m.listeners[q.Service]
	if crossing == nil && l == nil {
		m.refuse(reason.CMService, uint64(len(m.listeners)), uint64(q.Service))
		m.answerREJ(mad.RejectInvalidServiceID, mad.OfREQ, q.LocalID, 0, nil)
		return true
	}
	if !m.acceptable(q) {
		return true
	}
	c := crossing
	if c != nil {
		c.answered()
		c.leaveCrossing()
		l = nil
		c.takeREQ(q)
	} else {
		key.num = q.LocalID
		if admitted, done := m.admit(now, l, key, proven); !admitted {
			return done
		}
		c = m.newConn()
		c.listener, c.unproven = l, !proven
		c.takeREQ(q)
		m.half.open(c)
	}
	c.tell(Event{Kind: EventReqReceived, Listener: l, REQ: q, Private: q.Private[:], Source: r.from()})
	return true
}

// admit uses a place in the listener's backlog for the received request. If there is none, it
// challenges the sender of an unproven request, and leaves a proven request in its queue
// unless done is set.
func (m *Manager) admit(now time.Duration, l *Listener, k remoteKey, proven bool) (admitted, done bool) {
	fits := m.fits(now, l, m.sourceOf(k.peer), proven)
	switch {
	case proven && !fits:
		return false, false
	case proven:
	case l.full():
		m.refuse(reason.CMBacklog, uint64(l.Backlog), uint64(l.waiting)+1)
		return false, true
	case !fits || !m.screening.trusts(now, k):
		m.screening.challenge(now)
		return false, true
	}
	l.waiting++
	return true, true
}

// admitWaiting processes the stored request of a proven sender again and reports
// whether it is finished.
func (m *Manager) admitWaiting(now time.Duration, p *waitingRequest) bool {
	r := &m.received
	r.now, r.datagram, r.back = now, &p.mad, p.back
	mad.ParseHeader(p.mad[:], &r.header) // cannot fail: it was parsed before
	if r.header.Attribute == mad.AttrSIDRReq {
		r.sidrReq.Parse(r.datagram)
		return m.receiveSIDRReq(now, &r.sidrReq, true)
	}
	r.req.Parse(r.datagram)
	return m.receiveREQ(now, &r.req, true)
}

// takeREQ sets up the connection from the REQ. Local fields of the message are remote ones
// here.
func (c *Conn) takeREQ(q *mad.REQ) {
	m := c.m
	c.state, c.known = ReqReceived, true
	c.service, c.tid, c.guid = q.Service, m.received.header.TID, q.GUID
	c.remoteID, c.remoteQPN = q.LocalID, q.QPN
	// The queue pair's packets go to the address in the request; messages go back to where it
	// came from.
	c.reach = m.received.back
	if m.port != nil {
		c.path = m.port.replyPath(&q.Primary, &c.reach.Path)
		c.reach.PKeyIndex, _ = m.pkeyIndex(q.PKey)
	} else {
		dst := q.Primary.LocalGID.Addr()
		if _, behind := m.config.Translation(m.received.from()); behind {
			dst = m.received.from().Addr() // the address in the request leads nowhere from here
		}
		c.path = qp.Path{
			Dst:          netip.AddrPortFrom(dst, c.peer().Port()),
			FlowLabel:    q.Primary.FlowLabel,
			TrafficClass: q.Primary.TrafficClass,
		}
		c.reach.Path = c.path
		c.reach.Path.Dst = m.received.from()
	}
	c.kind = qp.RC
	if q.Transport == mad.TransportUC {
		c.kind = qp.UC
	}
	c.timeout, c.retries = min(duration(q.LocalResponseTimeout), maxResponse), q.MaxCMRetries
	c.ack, c.mtu = q.Primary.AckTimeout, q.MTU
	c.sendPSN, c.recvPSN = q.StartingPSN, psn.New(m.config.Random())
	c.resources, c.depth = q.InitiatorDepth, q.ResponderResources
	c.retryCount, c.rnrRetry = q.RetryCount, q.RNRRetryCount
	c.alternate = !q.Alternate.IsZero()
	m.remotes[c.key(c.remoteID)], c.hasRemote = c, true
	m.qpns[c.key(c.remoteQPN)], c.hasQPN = c, true
}

// duplicateREQ answers a repeated REQ (IBTA 12.9.8.3.1). If the REP was lost, its own timer
// repeats it, as in Linux.
func (m *Manager) duplicateREQ(c *Conn) {
	c.duplicate(mad.AttrREQ)
	switch c.state {
	case MRAReqSent:
		c.sendMRA(mad.OfREQ)
	case Timewait:
		m.answerREJ(mad.RejectStaleConnection, mad.OfREQ, c.remoteID, c.localID, nil)
	}
}

// crossed returns this end's request that a peer's REQ crosses (IBTA 12.10.4).
func (m *Manager) crossed(q *mad.REQ) *Conn {
	c := m.crossing[crossKey{m.home(m.received.from()), q.Service}]
	if c == nil || q.GUID == m.config.GUID && q.LocalID == c.localID {
		return nil // this end's own REQ, reflected
	}
	return c
}

// staysActive reports whether this end's request wins and the peer's is dropped (IBTA
// 12.10.4).
func (m *Manager) staysActive(c *Conn, q *mad.REQ) bool {
	if m.config.GUID != q.GUID {
		return m.config.GUID > q.GUID
	}
	return c.localQPN > q.QPN
}

// acceptable rejects a REQ that requires what the device does not have.
func (m *Manager) acceptable(q *mad.REQ) bool {
	local, own := q.Primary.LocalGID.Addr(), m.gid.Addr()
	mtu := mad.MTUFrom(m.config.MTU)
	switch {
	case q.Transport != mad.TransportRC && q.Transport != mad.TransportUC:
		m.refuse(reason.CMTransport, uint64(mad.TransportUC), uint64(q.Transport))
		m.answerREJ(mad.RejectInvalidTransport, mad.OfREQ, q.LocalID, 0, nil)
	case !m.inPartition(q.PKey):
		// There is no reject reason for partitions. Linux uses the one for paths.
		m.refuse(reason.CMPKey, uint64(m.firstPKey()), uint64(q.PKey))
		m.answerREJ(mad.RejectInvalidGID, mad.OfREQ, q.LocalID, 0, m.gid[:])
	case !m.hasGID(q.Primary.RemoteGID) && !m.config.seenAs(q.Primary.RemoteGID, m.received.from()):
		m.refuse(reason.CMGID, low(own), low(q.Primary.RemoteGID.Addr()))
		m.answerREJ(mad.RejectInvalidGID, mad.OfREQ, q.LocalID, 0, m.gid[:])
	case local.IsUnspecified() || local.IsMulticast() || local.Is4() != own.Is4():
		m.refuse(reason.CMPeerGID, m.number(m.received.from()), low(local))
		m.answerREJ(mad.RejectInvalidGID, mad.OfREQ, q.LocalID, 0, m.gid[:])
	case q.MTU.Bytes() == 0 || q.MTU > mtu:
		m.refuse(reason.CMMTU, uint64(mtu.Bytes()), uint64(q.MTU.Bytes()))
		// The largest possible MTU, in the encoding of its field.
		m.answerREJ(mad.RejectInvalidMTU, mad.OfREQ, q.LocalID, 0, []byte{byte(mtu) << 4})
	default:
		return true
	}
	return false
}

// seenAs reports whether a peer knows this device by a GID because of an address translator.
func (c *Config) seenAs(g mad.GID, peer netip.AddrPort) bool {
	own, _ := c.Translation(peer)
	return own.IsValid() && mad.GIDFrom(own) == g
}

// stale ends a connection that the peer has lost: it uses the queue pair for another one (IBTA
// 12.4.1).
func (m *Manager) stale(now time.Duration, old *Conn) {
	d := reason.Detail{Reason: reason.CMStale, Expected: uint64(old.localID), Found: uint64(old.remoteQPN)}
	m.config.Refuse(d)
	if old.state != Established {
		return // it is already ending, or times out
	}
	old.sendDREQ(now, nil)
	old.tell(Event{Kind: EventStaleConnection, Source: m.received.from(), Detail: d})
}

// Accept answers a request: it sends the REP (IBTA 12.9.6). The error is a
// *StateError or an *Error.
func (c *Conn) Accept(now time.Duration, p *AcceptParams) error {
	const op = "accept"
	if err := c.need(op, ReqReceived, MRAReqSent); err != nil {
		return err
	}
	if err := privateFits(op, "Private", len(p.Private), mad.REPPrivateLen); err != nil {
		return err
	}
	if err := within(op, limit{"QPN", uint64(p.QPN), 0xffffff}, limit{"PSN", uint64(p.PSN), 0xffffff},
		limit{"RNRRetryCount", uint64(p.RNRRetryCount), 7}, limit{"AckDelay", uint64(p.AckDelay), 31}); err != nil {
		return err
	}
	c.localQPN, c.recvPSN = p.QPN, or(p.PSN, c.recvPSN)
	c.resources, c.depth = p.ResponderResources, p.InitiatorDepth
	rep := mad.REP{
		LocalID: c.localID, RemoteID: c.remoteID,
		QPN: p.QPN, StartingPSN: c.recvPSN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TargetAckDelay: max(c.m.config.AckDelay, p.AckDelay), RNRRetryCount: p.RNRRetryCount,
		FlowControl: p.FlowControl, SRQ: p.SRQ, GUID: c.m.config.GUID,
	}
	if c.alternate {
		rep.Failover = mad.FailoverNotSupported
	}
	copy(rep.Private[:], p.Private)
	d := c.m.message(mad.AttrREP, c.tid, &rep)
	c.decided()
	c.private = nil
	c.state = RepSent
	if c.half {
		c.m.half.wait(now, c)
	}
	wait, retries := c.confirmation()
	c.askFor(now, d, wait, retries)
	return nil
}
