package cm

import (
	"encoding/binary"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib/own"
	"softrdma/internal/wire/mad"
)

// Reject refuses the peer's request or answer, or withdraws this end's: it sends a REJ. A
// connection whose REP was sent goes through the time wait. The error is a *StateError or an
// *Error.
func (c *Conn) Reject(now time.Duration, r mad.RejectReason, ari, private []byte) error {
	const op = "reject"
	if err := c.need(op, ReqReceived, MRAReqSent, ReqSent, MRAReqReceived, RepReceived, MRARepSent, RepSent, MRARepReceived); err != nil {
		return err
	}
	if err := privateFits(op, "ari", len(ari), mad.REJInfoLen); err != nil {
		return err
	}
	if err := privateFits(op, "private", len(private), mad.REJPrivateLen); err != nil {
		return err
	}
	c.sendREJ(r, ari, private)
	if c.state == RepSent || c.state == MRARepReceived {
		c.enterTimewait(now)
	} else {
		c.reset()
	}
	return nil
}

// sendREJ sends the REJ of the state.
func (c *Conn) sendREJ(r mad.RejectReason, ari, private []byte) {
	j := mad.REJ{LocalID: c.localID, RemoteID: c.remoteID, Of: mad.OfOther, Reason: r, InfoLen: uint8(len(ari))}
	switch c.state {
	case RepSent, MRARepReceived:
		c.rejection = r
	case ReqReceived:
		j.LocalID, j.Of = 0, mad.OfREQ // the peer does not know it yet
	case MRAReqSent:
		j.Of = mad.OfREQ
	case RepReceived, MRARepSent:
		j.Of = mad.OfREP
	}
	copy(j.Info[:], ari)
	copy(j.Private[:], private)
	d := c.m.message(mad.AttrREJ, c.tid, &j)
	c.send(d)
}

// told returns the additional information that tells a softrdma peer why a connection is rejected.
// Others do not look at it: that of a consumer's rejection has no format (IBTA 12.6.7.2).
func (c *Config) told(why reason.Detail) []byte {
	if c.KeepReasons {
		return nil
	}
	d := why.Outward()
	r := own.Reason{Number: uint32(d.Reason), Expected: d.Expected, Found: d.Found}
	return r.AppendInfo(nil)
}

// said returns why a softrdma peer has rejected a connection, if it says so.
func said(j *mad.REJ) reason.Detail {
	if j.Reason != mad.RejectConsumer {
		return reason.Detail{}
	}
	return heard(j.ARI())
}

// heard returns what told has made at a softrdma peer, the zero Detail for other bytes.
func heard(info []byte) reason.Detail {
	r, ok := own.ParseInfo(info)
	if !ok {
		return reason.Detail{}
	}
	return reason.Detail{Reason: reason.Reason(r.Number), Expected: r.Expected, Found: r.Found}
}

// infoFor returns the additional information of a REJ: for a timeout the local GUID, by which
// the peer finds the connection (IBTA 12.6.7.2).
func (m *Manager) infoFor(r mad.RejectReason) []byte {
	if r != mad.RejectTimeout {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, m.config.GUID)
}

// answerREJ rejects the received message without a connection. The IDs are the message's;
// remote is the sender's.
func (m *Manager) answerREJ(r mad.RejectReason, of mad.Which, remote, local uint32, ari []byte) {
	j := mad.REJ{LocalID: local, RemoteID: remote, Of: of, Reason: r, InfoLen: uint8(len(ari))}
	copy(j.Info[:], ari)
	d := m.message(mad.AttrREJ, m.received.header.TID, &j)
	m.answer(d)
}

// refuseVersion answers a request of another class version with this end's version (IBTA
// 12.6.7.2). The communication ID is at the same offset in all versions.
func (m *Manager) refuseVersion() {
	r := &m.received
	switch r.header.Attribute {
	case mad.AttrREQ:
		id := binary.BigEndian.Uint32(r.datagram[mad.HeaderLen:])
		m.answerREJ(mad.RejectInvalidClassVersion, mad.OfREQ, id, 0, []byte{mad.CMClassVersion})
	case mad.AttrSIDRReq:
		r.sidrReq.Parse(r.datagram)
		m.answerSIDR(&r.sidrReq, mad.SIDRUnsupportedVersion)
	}
}

// rejected returns the connection that a REJ belongs to.
func (m *Manager) rejected(j *mad.REJ) *Conn {
	switch {
	case j.Reason == mad.RejectTimeout && j.InfoLen >= 8:
		return m.timedOut(j)
	case j.Of == mad.OfREQ || m.asking(j.RemoteID):
		// The REJ of a connection whose REP was sent may overtake the REP.
		return m.findAsking(j.RemoteID, j.LocalID)
	}
	return m.find(j.RemoteID, j.LocalID)
}

// timedOut returns the connection that a peer no longer waits for (IBTA 12.6.7.2): the one
// that it names, unless that has another peer. If the sender never learned this end's ID, it
// names its own GUID, which makes its communication ID unique. If its REP was lost, this end
// never learned the sender's ID.
func (m *Manager) timedOut(j *mad.REJ) *Conn {
	if c := m.conns[j.RemoteID]; c != nil && (!c.known || c.remoteID == j.LocalID) {
		return m.fromPeer(c)
	}
	guid := binary.BigEndian.Uint64(j.Info[:])
	if c := m.remotes[remoteKey{m.home(m.received.from()), guid, j.LocalID}]; c != nil {
		return c
	}
	m.refuse(reason.CMCommID, uint64(j.RemoteID), uint64(j.LocalID))
	return nil
}

func (m *Manager) receiveREJ(now time.Duration, j *mad.REJ) {
	c := m.rejected(j)
	if c == nil {
		return
	}
	found := c.state
	switch c.state {
	case ReqSent, MRAReqReceived:
		if c.peerToPeer && j.Reason == mad.RejectInvalidServiceID {
			// The peer has not sent its request yet. It will, or this end times out.
			m.refuse(reason.CMRejected, uint64(c.state), uint64(j.Reason))
			return
		}
		c.endRejected(now, j)
	case RepSent, MRARepReceived, ReqReceived, MRAReqSent:
		c.endRejected(now, j)
	case Established, DreqSent, RepReceived, MRARepSent:
		c.enterTimewait(now)
	default: // DreqReceived, Timewait: over already
		c.duplicate(mad.AttrREJ)
		return
	}
	d := reason.Detail{Reason: reason.CMRejected, Expected: uint64(found), Found: uint64(j.Reason)}
	m.config.Refuse(d)
	c.tell(Event{Kind: EventRejReceived, Reject: j.Reason, ARI: j.ARI(), Private: j.Private[:], Source: m.received.from(), Detail: d, Said: said(j)})
}

// endRejected ends a connection that was not established. After a stale connection the queue
// pair's number must not be used at once. But the peer may repeat its REQ, which is still
// valid, and that must not look like a duplicate.
func (c *Conn) endRejected(now time.Duration, j *mad.REJ) {
	if j.Reason == mad.RejectStaleConnection {
		c.leaveRemotes()
		c.enterTimewait(now)
		return
	}
	c.reset()
}
