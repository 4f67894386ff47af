package cm

import (
	"bytes"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ib/own"
	"softrdma/internal/wire/mad"
)

// Disconnect asks the peer to end the connection: it sends the DREQ (IBTA 12.9.7). The error
// is a *StateError or an *Error.
func (c *Conn) Disconnect(now time.Duration, private []byte) error {
	const op = "disconnect"
	if err := c.need(op, Established); err != nil {
		return err
	}
	if err := privateFits(op, "private", len(private), mad.DREQPrivateLen); err != nil {
		return err
	}
	if len(private) == 0 {
		private = c.farewell(reason.CMEnded)
	}
	c.sendDREQ(now, private)
	return nil
}

// farewell returns the private data of a DREQ or DREP that tells a softrdma peer why the connection
// ends: the first failure of this end's queue pair, or otherwise a reason, None for nothing. Nothing
// else is in these fields, as rdma_disconnect gives no private data, so that others do not look. They
// have no length: zeros follow.
func (c *Conn) farewell(otherwise reason.Reason) []byte {
	var why reason.Detail
	if f := c.m.config.Why; f != nil {
		why = f(c.localQPN)
	}
	if why.Reason == reason.None {
		why = reason.Detail{Reason: otherwise, Expected: uint64(c.localQPN), Found: uint64(c.remoteQPN)}
	}
	if why.Reason == reason.None {
		return nil
	}
	return c.m.config.told(why)
}

func (c *Conn) sendDREQ(now time.Duration, private []byte) {
	q := mad.DREQ{LocalID: c.localID, RemoteID: c.remoteID, RemoteQPN: c.remoteQPN}
	copy(q.Private[:], private)
	d := c.m.message(mad.AttrDREQ, c.m.config.transaction(c.localID), &q)
	c.state = DreqSent
	c.private = nil
	c.ask(now, d)
}

// DisconnectReply confirms the peer's Disconnect: it sends the DREP, and the
// connection enters the time wait. The error is a *StateError or an *Error.
func (c *Conn) DisconnectReply(now time.Duration, private []byte) error {
	const op = "disconnect reply"
	if err := c.need(op, DreqReceived); err != nil {
		return err
	}
	if err := privateFits(op, "private", len(private), mad.DREPPrivateLen); err != nil {
		return err
	}
	if len(private) == 0 {
		private = c.farewell(reason.None)
	}
	c.sendDREP(now, private)
	return nil
}

func (c *Conn) sendDREP(now time.Duration, private []byte) {
	c.private = bytes.Clone(private)
	c.send(c.newDREP())
	c.enterTimewait(now)
}

func (c *Conn) newDREP() *[mad.Len]byte {
	p := mad.DREP{LocalID: c.localID, RemoteID: c.remoteID}
	copy(p.Private[:], c.private)
	d := c.m.message(mad.AttrDREP, c.tid, &p)
	return d
}

func (m *Manager) receiveDREQ(now time.Duration, q *mad.DREQ) {
	c := m.conns[q.RemoteID]
	if c != nil && !c.known && m.fromPeer(c) != nil {
		// The peer checks whether the REQ came from here (screening.challenge). The rate limit
		// for unknown connections must not delay the answer.
		m.reply(m.answerUnknownDREQ(q))
		return
	}
	if c == nil || !c.known || c.remoteID != q.LocalID {
		// A connection that does not exist is disconnected: the peer may stop waiting.
		m.refuse(reason.CMCommID, uint64(q.RemoteID), uint64(q.LocalID))
		m.answer(m.answerUnknownDREQ(q))
		return
	}
	if m.fromPeer(c) == nil {
		return
	}
	if q.RemoteQPN != c.localQPN {
		m.refuse(reason.CMQPN, uint64(c.localQPN), uint64(q.RemoteQPN))
		return
	}
	switch c.state {
	case RepSent, MRARepReceived, DreqSent: // the RTU was lost, or both disconnect at the same time
		c.answered()
		c.proved()
		c.leaveHalfOpen()
	case Established:
	case Timewait: // the DREP was lost
		c.duplicate(mad.AttrDREQ)
		c.tid = m.received.header.TID
		c.send(c.newDREP())
		return
	case DreqReceived:
		c.duplicate(mad.AttrDREQ)
		return
	default:
		c.wrongState(Established)
		return
	}
	c.state, c.tid, c.private = DreqReceived, m.received.header.TID, nil
	if c.detached {
		c.sendDREP(now, nil)
		return
	}
	c.tell(Event{Kind: EventDreqReceived, Private: q.Private[:], Source: m.received.from(), Said: heard(q.Private[:own.InfoLen])})
}

// answerUnknownDREQ answers the DREQ of a connection that does not exist.
func (m *Manager) answerUnknownDREQ(q *mad.DREQ) *[mad.Len]byte {
	p := mad.DREP{LocalID: q.RemoteID, RemoteID: q.LocalID}
	d := m.message(mad.AttrDREP, m.received.header.TID, &p)
	return d
}

func (m *Manager) receiveDREP(now time.Duration, p *mad.DREP) {
	if m.screening.answered(now, p) {
		return
	}
	c := m.find(p.RemoteID, p.LocalID)
	if c == nil {
		return
	}
	if c.state != DreqSent && c.state != DreqReceived {
		if c.state == Timewait {
			c.duplicate(mad.AttrDREP)
		} else {
			c.wrongState(DreqSent)
		}
		return
	}
	c.enterTimewait(now)
	c.tell(Event{Kind: EventDrepReceived, Private: p.Private[:], Source: m.received.from(), Said: heard(p.Private[:own.InfoLen])})
}
