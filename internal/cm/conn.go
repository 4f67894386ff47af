package cm

import (
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Conn is one end of a connection.
type Conn struct {
	Context any // the user's

	m        *Manager
	listener *Listener // counts the request until the user decides
	timer    timer
	older    *Conn // in halfOpen
	newer    *Conn
	private  []byte        // of the MRA, RTU or DREP that answers duplicates
	path     qp.Path       // of the queue pair's packets
	reach    Route         // of messages
	tid      uint64        // of the current exchange
	replied  time.Duration // when the REP was sent

	identity
	agreement
	repetition

	hint           reason.Detail    // what the network reported about the peer
	rejection      mad.RejectReason // with which this end withdrew its REP
	state          State
	detached       bool // destroyed by the user
	known          bool // remoteID, remoteQPN and guid are valid
	hasRemote      bool // in Manager.remotes
	hasQPN         bool // in Manager.qpns
	half           bool // counted in halfOpen
	unconfirmed    bool // in the list of unconfirmed connections
	unproven       bool // the peer has not proved its address
	peerToPeer     bool
	alternate      bool  // the REQ had an alternate path
	serviceTimeout uint8 // of the MRA that was sent
}

// An identity is what tells a connection from others.
type identity struct {
	service mad.ServiceID
	kind    qp.Type
	guid    uint64 // of the peer's adapter

	localID, remoteID   uint32
	localQPN, remoteQPN uint32
	sendPSN, recvPSN    psn.PSN // each end chooses the first PSN of its peer's requests (IBTA 12.7.29)
}

// An agreement is what both ends have settled for their queue pairs.
type agreement struct {
	mtu        mad.MTU
	ack        uint8 // acknowledge timeout, an exponent
	resources  uint8 // READs and ATOMICs that this end serves
	depth      uint8 // READs and ATOMICs that this end has in flight
	retryCount uint8
	rnrRetry   uint8
}

// A repetition is how a message is repeated until its answer comes.
type repetition struct {
	waiting *[mad.Len]byte // the message, nil if none waits
	timeout time.Duration  // time limit of an answer
	wait    time.Duration  // the same, or longer after an MRA
	early   uint8          // remaining repetitions before the first time-out, see askEarly
	retries uint8          // repetitions of a message
	left    uint8          // remaining ones
}

// State returns the connection's state.
func (c *Conn) State() State { return c.state }

// LocalID returns this end's communication ID.
func (c *identity) LocalID() uint32 { return c.localID }

// RemoteID returns the peer's communication ID, 0 while it is unknown.
func (c *identity) RemoteID() uint32 { return c.remoteID }

// LocalQPN returns this end's queue pair, 0 before Connect or Accept named it.
func (c *identity) LocalQPN() uint32 { return c.localQPN }

// RemoteQPN returns the peer's queue pair, 0 while it is unknown.
func (c *identity) RemoteQPN() uint32 { return c.remoteQPN }

// Service returns the service ID that the connection was asked for.
func (c *identity) Service() mad.ServiceID { return c.service }

// Type returns the queue pair's, RC or UC.
func (c *identity) Type() qp.Type { return c.kind }

// Path leads to the peer's queue pair.
func (c *Conn) Path() qp.Path { return c.path }

// newConn makes a connection that is in no table yet.
func (m *Manager) newConn() *Conn {
	c := &Conn{m: m, identity: identity{localID: m.newID()}}
	c.timer.owner = c
	m.conns[c.localID] = c
	m.live++
	return c
}

// need returns the error of a call in a state that does not allow it.
func (c *Conn) need(op string, allowed ...State) error {
	if slices.Contains(allowed, c.state) {
		return nil
	}
	return &StateError{Op: op, Expected: allowed, Found: c.state}
}

// privateFits returns the error of private data that does not fit in the message.
func privateFits(op, field string, n, room int) error {
	if n <= room {
		return nil
	}
	return &Error{op, field, reason.Detail{Reason: reason.CMPrivateData, Expected: uint64(room), Found: uint64(n)}}
}

// send sends a message of the connection.
func (c *Conn) send(d *[mad.Len]byte) {
	c.m.send(&c.reach, d)
}

// ask sends a message and repeats it until it is answered.
func (c *Conn) ask(now time.Duration, d *[mad.Len]byte) { c.askFor(now, d, c.timeout, c.retries) }

func (c *Conn) askFor(now time.Duration, d *[mad.Len]byte, wait time.Duration, retries uint8) {
	c.waiting, c.left, c.wait, c.hint = d, retries, wait, reason.Detail{}
	c.send(d)
	c.m.timers.set(&c.timer, now+c.wait)
}

// A REQ is repeated twice before the peer's response timeout, which most peers
// leave at four seconds. That timeout allows for a program's answer, but a busy
// listener easily loses the first packet. Peers recognize the repetition as a
// duplicate.
const (
	earlyRepeats = 2
	earlyWait    = 200 * time.Millisecond // before the first, twice that before the second
)

// askEarly is ask with early repetitions, if there is time for them.
func (c *Conn) askEarly(now time.Duration, d *[mad.Len]byte) {
	c.ask(now, d)
	if c.timeout > earlyWait<<earlyRepeats {
		c.early = earlyRepeats
		c.m.timers.set(&c.timer, now+earlyWait)
	}
}

// repeatEarly repeats a message if an early repetition is due, and reports whether it did.
func (c *Conn) repeatEarly(now time.Duration) bool {
	if c.early == 0 {
		return false
	}
	wait := c.wait
	if c.early--; c.early > 0 {
		wait = earlyWait << (earlyRepeats - c.early)
	}
	c.send(c.waiting)
	c.m.timers.set(&c.timer, now+wait)
	return true
}

// answered ends the repetition.
func (c *Conn) answered() {
	c.waiting, c.early = nil, 0
	c.m.timers.stop(&c.timer)
}

// decided frees the request's place in the listener's backlog.
func (c *Conn) decided() {
	if c.listener != nil {
		c.listener.waiting--
		c.listener = nil
		c.m.screening.retry = true
	}
}

// leaveQPNs and leaveRemotes remove the connection from a table.
func (c *Conn) leaveQPNs() {
	if c.hasQPN {
		delete(c.m.qpns, c.key(c.remoteQPN))
		c.hasQPN = false
	}
}

func (c *Conn) leaveRemotes() {
	if c.hasRemote {
		delete(c.m.remotes, c.key(c.remoteID))
		c.hasRemote = false
	}
}

func (c *Conn) key(num uint32) remoteKey { return remoteKey{c.m.home(c.peer()), c.guid, num} }

// peer returns the endpoint of the peer's communication manager.
func (c *Conn) peer() netip.AddrPort { return c.reach.Path.Dst }

func (c *Conn) leaveCrossing() {
	if c.peerToPeer {
		delete(c.m.crossing, crossKey{c.m.home(c.peer()), c.service})
		c.peerToPeer = false
	}
}

// reset makes the connection idle, so that no message reaches it any more.
func (c *Conn) reset() {
	c.answered()
	c.decided()
	c.leaveHalfOpen()
	c.leaveQPNs()
	c.leaveRemotes()
	c.leaveCrossing()
	c.private = nil
	c.state = Idle
	delete(c.m.conns, c.localID)
}

// tell passes an event of the connection to its user, if it has one.
func (c *Conn) tell(e Event) {
	if c.detached {
		return
	}
	e.Conn = c
	c.m.tell(e)
}

// expire is called when the connection's deadline has passed.
func (c *Conn) expire(now time.Duration) {
	if c.state == Timewait {
		c.reset()
		c.tell(Event{Kind: EventTimewaitExit})
		return
	}
	if c.repeatEarly(now) {
		return
	}
	if c.left > 0 {
		c.left--
		c.send(c.waiting)
		c.m.timers.set(&c.timer, now+c.wait)
		return
	}
	c.giveUp(now)
}

// giveUp ends the wait for an answer, and tells the peer if that may be waiting as well (IBTA
// 12.9.8.7).
func (c *Conn) giveUp(now time.Duration) {
	d := reason.Detail{Expected: uint64(c.retries), Found: uint64(c.wait.Milliseconds())}
	e := Event{Kind: EventDreqTimeout}
	switch c.state {
	case ReqSent, MRAReqReceived:
		c.sendREJ(mad.RejectTimeout, c.m.infoFor(mad.RejectTimeout), nil)
		c.reset()
		e.Kind, d.Reason = EventReqTimeout, reason.CMReqTimeout
	case RepSent, MRARepReceived:
		_, retries := c.confirmation()
		d.Reason, d.Expected = reason.CMRepTimeout, uint64(retries)
		if c.hint.Reason != reason.None {
			d = c.hint
		}
		c.abandon(now, d)
		return
	default: // DreqSent
		c.enterTimewait(now)
		d.Reason = reason.CMDreqTimeout
	}
	if c.hint.Reason != reason.None { // it is the reason
		d = c.hint
	}
	c.m.config.Refuse(d)
	e.Detail = d
	c.tell(e)
}

// Destroy ends the connection for its user, in any state: it rejects or withdraws a request,
// disconnects an established connection, and answers a disconnect. No event follows. The
// Manager itself answers the peer's messages until the time wait is over.
func (c *Conn) Destroy(now time.Duration) {
	c.Decline(now, reason.Detail{Reason: reason.CMReleased, Expected: uint64(c.state), Found: uint64(c.localID)})
}

// Decline is Destroy that tells a softrdma peer why, if it rejects.
func (c *Conn) Decline(now time.Duration, why reason.Detail) {
	if c.detached {
		return
	}
	c.m.live--
	switch c.state {
	case ReqSent, MRAReqReceived:
		c.sendREJ(mad.RejectTimeout, c.m.infoFor(mad.RejectTimeout), nil)
		c.reset()
	case ReqReceived, MRAReqSent, RepReceived, MRARepSent:
		c.sendREJ(mad.RejectConsumer, c.m.config.told(why), nil)
		c.reset()
	case RepSent, MRARepReceived:
		c.sendREJ(mad.RejectConsumer, c.m.config.told(why), nil)
		c.enterTimewait(now)
	case Established:
		c.sendDREQ(now, c.farewell(reason.CMAbandoned))
	case DreqReceived:
		c.sendDREP(now, c.farewell(reason.None))
	}
	c.detached = true
	c.Context = nil
}

// find returns the connection that a message names by both communication IDs, if the
// message comes from its peer.
func (m *Manager) find(local, remote uint32) *Conn {
	c := m.conns[local]
	if c == nil || !c.known || c.remoteID != remote {
		m.refuse(reason.CMCommID, uint64(local), uint64(remote))
		return nil
	}
	return m.fromPeer(c)
}

// findAsking returns the connection whose REQ a message answers. It does not know the
// peer's communication ID yet.
func (m *Manager) findAsking(local, remote uint32) *Conn {
	c := m.conns[local]
	if c == nil || c.known {
		m.refuse(reason.CMCommID, uint64(local), uint64(remote))
		return nil
	}
	return m.fromPeer(c)
}

// asking reports whether an ID belongs to a connection whose REQ is unanswered.
func (m *Manager) asking(local uint32) bool {
	c := m.conns[local]
	return c != nil && !c.known
}

// fromPeer returns the connection if the received message comes from its peer's address. The
// port is not checked, because source ports spread flows.
func (m *Manager) fromPeer(c *Conn) *Conn {
	from := m.received.from()
	if m.same(from, c.peer()) || m.same(from, c.path.Dst) {
		return c
	}
	m.refuse(reason.CMSource, m.number(c.peer()), m.number(from))
	return nil
}

// wrongState refuses a message that does not fit the state.
func (c *Conn) wrongState(expected State) {
	c.m.refuse(reason.CMState, uint64(expected), uint64(c.state))
}

// duplicate refuses a message that was already received.
func (c *Conn) duplicate(a mad.AttributeID) {
	c.m.refuse(reason.CMDuplicate, uint64(a), uint64(c.state))
}
