package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Lookup asks a peer which queue pair serves a service ID by datagrams (IBTA 12.11).
type Lookup struct {
	Context any // the user's

	m       *Manager
	id      uint32
	route   Route
	timer   timer
	waiting *[mad.Len]byte
	hint    reason.Detail // what the network reported about the peer
	timeout time.Duration
	retries uint8
	left    uint8
}

// Resolve sends the SIDR_REQ. The error is an *Error.
func (m *Manager) Resolve(now time.Duration, p *SIDRParams) (*Lookup, error) {
	const op = "resolve"
	if !p.Path.Dst.IsValid() || p.Path.Dst.Addr().Unmap().Is4() != m.config.Local.Addr().Unmap().Is4() {
		return nil, &Error{op, "Path", reason.Detail{Reason: reason.CMGID, Expected: low(m.config.Local.Addr()), Found: low(p.Path.Dst.Addr())}}
	}
	if err := privateFits(op, "Private", len(p.Private), mad.SIDRReqPrivateLen); err != nil {
		return nil, err
	}
	if err := m.checkPKey(op, p.PKey); err != nil {
		return nil, err
	}
	if err := within(op, limit{"Retries", uint64(p.Retries), 15}); err != nil {
		return nil, err
	}
	l := &Lookup{Context: p.Context, m: m, id: m.newID(), route: m.route(&p.Path, p.PKey), timeout: p.Timeout,
		retries: or(p.Retries, DefaultRetries)}
	l.left = l.retries
	if l.timeout <= 0 {
		l.timeout = duration(DefaultResponseTimeout)
	}
	l.timer.owner = l
	q := mad.SIDRReq{RequestID: l.id, PKey: or(p.PKey, defaultPKey), Port: m.config.Local.Port(), Service: p.Service}
	copy(q.Private[:], p.Private)
	l.waiting = m.message(mad.AttrSIDRReq, m.config.transaction(l.id), &q)
	m.lookups[l.id] = l
	m.send(&l.route, l.waiting)
	m.timers.set(&l.timer, now+l.timeout)
	return l, nil
}

// Path returns the path to the peer.
func (l *Lookup) Path() qp.Path { return l.route.Path }

// Destroy cancels the lookup. No event follows.
func (l *Lookup) Destroy(_ time.Duration) { l.done() }

func (l *Lookup) done() {
	l.m.timers.stop(&l.timer)
	if l.waiting != nil {
		delete(l.m.lookups, l.id)
		l.waiting = nil
	}
}

// expire asks again, or fails the lookup.
func (l *Lookup) expire(now time.Duration) {
	if l.left > 0 {
		l.left--
		l.m.send(&l.route, l.waiting)
		l.m.timers.set(&l.timer, now+l.timeout)
		return
	}
	l.done()
	d := reason.Detail{Reason: reason.CMSIDRTimeout, Expected: uint64(l.retries), Found: uint64(l.timeout.Milliseconds())}
	if l.hint.Reason != reason.None {
		d = l.hint
	}
	l.m.config.Refuse(d)
	l.m.tell(Event{Kind: EventSidrTimeout, Lookup: l, Detail: d})
}

func (m *Manager) receiveSIDRRep(p *mad.SIDRRep) {
	l := m.lookups[p.RequestID]
	if l == nil {
		m.refuse(reason.CMCommID, uint64(p.RequestID), 0)
		return
	}
	if from := m.received.from(); !m.same(from, l.route.Path.Dst) {
		m.refuse(reason.CMSource, m.number(l.route.Path.Dst), m.number(from))
		return
	}
	l.done()
	e := Event{Kind: EventSidrRepReceived, Lookup: l, SIDRRep: p, Private: p.Private[:], Source: m.received.from()}
	if p.Status != mad.SIDRSuccess {
		e.Detail = reason.Detail{Reason: reason.CMSIDRRefused, Expected: uint64(mad.SIDRSuccess), Found: uint64(p.Status)}
		m.config.Refuse(e.Detail)
	}
	m.tell(e)
}

// An Inquiry is a peer's SIDR_REQ that waits for Reply.
type Inquiry struct {
	Context any // the user's

	m        *Manager
	listener *Listener
	key      inquiryKey
	route    Route
	tid      uint64
	service  mad.ServiceID
	done     bool
}

// An inquiryKey identifies a SIDR_REQ and its duplicates.
type inquiryKey struct {
	peer netip.AddrPort
	id   uint32
}

func (m *Manager) receiveSIDRReq(now time.Duration, q *mad.SIDRReq, proven bool) (done bool) {
	r := &m.received
	m.announced(q.Port)
	key := inquiryKey{m.home(r.from()), q.RequestID}
	if m.inquiries[key] != nil {
		m.refuse(reason.CMDuplicate, uint64(mad.AttrSIDRReq), uint64(Idle))
		return true
	}
	l := m.listeners[q.Service]
	if l == nil {
		m.refuse(reason.CMService, uint64(len(m.listeners)), uint64(q.Service))
		m.answerSIDR(q, mad.SIDRUnsupported)
		return true
	}
	if admitted, done := m.admit(now, l, remoteKey{peer: key.peer, num: key.id}, proven); !admitted {
		return done
	}
	i := &Inquiry{m: m, listener: l, key: key, route: r.back, tid: r.header.TID, service: q.Service}
	m.inquiries[key] = i
	m.tell(Event{Kind: EventSidrReqReceived, Listener: l, Inquiry: i, SIDRReq: q, Private: q.Private[:], Source: r.from()})
	return true
}

// answerSIDR answers a SIDR_REQ without an Inquiry.
func (m *Manager) answerSIDR(q *mad.SIDRReq, s mad.SIDRStatus) {
	p := mad.SIDRRep{RequestID: q.RequestID, Status: s, Service: q.Service}
	d := m.message(mad.AttrSIDRRep, m.received.header.TID, &p)
	m.answer(d)
}

// Path returns the path to the peer that asks.
func (r *Inquiry) Path() qp.Path { return r.route.Path }

// Service returns the service ID that it asks for.
func (r *Inquiry) Service() mad.ServiceID { return r.service }

// Reply sends the SIDR_REP and ends the Inquiry. The error is a *StateError after the
// first reply, or an *Error.
func (r *Inquiry) Reply(_ time.Duration, p *SIDRReply) error {
	const op = "reply"
	if r.done {
		return &StateError{Op: op, Expected: []State{ReqReceived}, Found: Idle}
	}
	if err := privateFits(op, "Info", len(p.Info), mad.SIDRRepInfoLen); err != nil {
		return err
	}
	if err := privateFits(op, "Private", len(p.Private), mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	if err := within(op, limit{"QPN", uint64(p.QPN), 0xffffff}); err != nil {
		return err
	}
	a := mad.SIDRRep{RequestID: r.key.id, Status: p.Status, InfoLen: uint8(len(p.Info)), QPN: p.QPN, QKey: p.QKey, Service: r.service}
	copy(a.Info[:], p.Info)
	copy(a.Private[:], p.Private)
	d := r.m.message(mad.AttrSIDRRep, r.tid, &a)
	r.m.send(&r.route, d)
	r.done = true
	r.listener.waiting--
	r.m.screening.retry = true
	delete(r.m.inquiries, r.key)
	return nil
}

// Destroy ends the Inquiry. One without a reply is rejected.
func (r *Inquiry) Destroy(now time.Duration) {
	if !r.done {
		_ = r.Reply(now, &SIDRReply{Status: mad.SIDRRejected})
	}
}
