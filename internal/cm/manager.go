package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// defaultPKey is full membership of the default partition, which is RoCE's only one.
const defaultPKey = 0xffff

// Config configures a Manager.
type Config struct {
	GUID     uint64              // Local CA GUID
	Local    netip.AddrPort      // the device's address and UDP port; on a fabric see Configure
	MTU      int                 // active MTU, bytes
	AckDelay uint8               // Local CA ACK Delay, an exponent to 4.096 µs; Linux's Soft RoCE has 15
	Random   func() uint32       // communication and transaction IDs, PSNs: unpredictable
	Refuse   func(reason.Detail) // counts and traces a refusal; may be nil

	KeepReasons bool // does not tell softrdma peers why a connection is refused or ends

	// Translation tells of an address translator between this device and a peer, as its packets name it: what the
	// peer takes this device's address to be, invalid if that is the address that it has, and whether the peer has another one
	// than it says in its requests. It may be nil.
	Translation func(peer netip.AddrPort) (own netip.Addr, behind bool)

	// Why returns the first failure of a queue pair, None if there was none. It may be nil.
	Why func(qpn uint32) reason.Detail
}

// transaction draws a transaction ID.
func (c *Config) transaction(id uint32) uint64 { return uint64(c.Random())<<32 | uint64(id) }

// A Datagram is a management datagram to send from queue pair 1 to queue pair 1 at the end of
// the path.
type Datagram struct {
	Route
	MAD [mad.Len]byte

	// Reply reports that the message belongs to no connection. It answers one
	// datagram, whose source may be forged, so no state is kept for a second one.
	Reply bool
}

// A Route is how a datagram travels.
type Route struct {
	Path      qp.Path
	PKeyIndex uint16 // in the port's table
}

// A Manager is the communication manager of one device.
type Manager struct {
	site
	outbox

	config  Config
	handler func(*Event)

	conns     map[uint32]*Conn    // by local communication ID
	remotes   map[remoteKey]*Conn // by the peer's communication ID
	qpns      map[remoteKey]*Conn // by the peer's QPN
	crossing  map[crossKey]*Conn  // active ends that may cross a request of another active end
	listeners map[mad.ServiceID]*Listener
	lookups   map[uint32]*Lookup // by request ID, which no connection uses
	inquiries map[inquiryKey]*Inquiry

	half      halfOpen
	screening screening
	answers   bucket // for answers to messages of no connection

	live     int // connections that are not destroyed
	timers   timers
	event    Event
	received scratch
}

// A remoteKey identifies a connection by a number that the peer chose.
type remoteKey struct {
	peer netip.AddrPort // its endpoint, see home
	guid uint64
	num  uint32
}

// A crossKey identifies the subject of simultaneous requests.
type crossKey struct {
	peer    netip.AddrPort
	service mad.ServiceID
}

// scratch holds the message that is being received.
type scratch struct {
	now      time.Duration
	back     Route // to the sender's communication manager
	header   mad.Header
	datagram *[mad.Len]byte
	req      mad.REQ
	mra      mad.MRA
	rej      mad.REJ
	rep      mad.REP
	rtu      mad.RTU
	dreq     mad.DREQ
	drep     mad.DREP
	lap      mad.LAP
	sidrReq  mad.SIDRReq
	sidrRep  mad.SIDRRep
}

// from returns the sender's endpoint.
func (s *scratch) from() netip.AddrPort { return s.back.Path.Dst }

// announced returns the UDP port to which the sender wants answers (annex A17.3.2.2). Ports of
// a fabric have none.
func (m *Manager) announced(port uint16) {
	if port != 0 && m.port == nil {
		m.received.back.Path.Dst = netip.AddrPortFrom(m.received.from().Addr(), port)
	}
}

// New makes the communication manager of a device.
func New(c Config) *Manager {
	if c.Refuse == nil {
		c.Refuse = func(reason.Detail) {}
	}
	if c.Translation == nil {
		c.Translation = func(netip.AddrPort) (own netip.Addr, behind bool) { return own, false }
	}
	m := &Manager{
		config:    c,
		site:      site{gid: mad.GIDFrom(c.Local.Addr())},
		conns:     map[uint32]*Conn{},
		remotes:   map[remoteKey]*Conn{},
		qpns:      map[remoteKey]*Conn{},
		crossing:  map[crossKey]*Conn{},
		listeners: map[mad.ServiceID]*Listener{},
		lookups:   map[uint32]*Lookup{},
		inquiries: map[inquiryKey]*Inquiry{},
	}
	m.SetHandler(nil)
	m.screening.init(m)
	m.answers = newBucket(answerBurst, answerEvery)
	return m
}

// SetHandler sets the function that gets the events. f is called from within other methods; it
// must neither block nor call the Manager. Nil drops events.
func (m *Manager) SetHandler(f func(*Event)) {
	if f == nil {
		f = func(*Event) {}
	}
	m.handler = f
}

// Count counts the objects of a Manager.
type Count struct {
	Conns     int // not destroyed
	Detached  int // destroyed, but kept until the disconnect and the time wait are over
	Lookups   int // without an answer
	Inquiries int // without a reply
	Waiting   int // requests that wait for their sender's proof or, once proven, for room
	Listeners int
	Timers    int // of connections and lookups
	Queued    int // datagrams for Next
}

// Count returns how much the Manager holds.
func (m *Manager) Count() Count {
	n := Count{Conns: m.live, Lookups: len(m.lookups), Inquiries: len(m.inquiries), Listeners: len(m.listeners),
		Waiting: m.screening.queued, Timers: len(m.timers), Queued: m.queued()}
	if m.screening.timer.place != 0 {
		n.Timers--
	}
	for i := range m.screening.ring {
		if m.screening.ring[i].tid != 0 {
			n.Waiting++
		}
	}
	for _, c := range m.conns {
		if c.detached {
			n.Detached++
		}
	}
	return n
}

// Receive handles the payload of a SEND to queue pair 1, of any length and content, with the
// route back to its sender.
func (m *Manager) Receive(now time.Duration, back Route, b []byte) {
	r := &m.received
	d, refusal := mad.ParseHeader(b, &r.header)
	if d == nil {
		m.config.Refuse(refusal)
		return
	}
	// The source port of a packet spreads flows; the destination is 4791 unless
	// the message announces another (annex A17.3.2.1, A17.3.2.2).
	r.now, r.datagram, r.back = now, d, back
	if m.port == nil {
		r.back.Path.Dst = netip.AddrPortFrom(r.from().Addr().Unmap(), ib.UDPPort)
	}
	m.announced(r.header.Port)
	if refusal.Reason != reason.None {
		m.config.Refuse(refusal)
		if refusal.Reason == reason.MADClassVersion && r.header.Method == mad.MethodSend {
			m.refuseVersion()
		}
		return
	}
	m.dispatch(now)
	if m.screening.retry && m.screening.queued > 0 {
		m.screening.serve(now)
	}
}

func (m *Manager) dispatch(now time.Duration) {
	r := &m.received
	switch r.header.Attribute {
	case mad.AttrREQ:
		r.req.Parse(r.datagram)
		m.receiveREQ(now, &r.req, false)
	case mad.AttrMRA:
		r.mra.Parse(r.datagram)
		m.receiveMRA(now, &r.mra)
	case mad.AttrREJ:
		r.rej.Parse(r.datagram)
		m.receiveREJ(now, &r.rej)
	case mad.AttrREP:
		r.rep.Parse(r.datagram)
		m.receiveREP(now, &r.rep)
	case mad.AttrRTU:
		r.rtu.Parse(r.datagram)
		m.receiveRTU(&r.rtu)
	case mad.AttrDREQ:
		r.dreq.Parse(r.datagram)
		m.receiveDREQ(now, &r.dreq)
	case mad.AttrDREP:
		r.drep.Parse(r.datagram)
		m.receiveDREP(now, &r.drep)
	case mad.AttrSIDRReq:
		r.sidrReq.Parse(r.datagram)
		m.receiveSIDRReq(now, &r.sidrReq, false)
	case mad.AttrSIDRRep:
		r.sidrRep.Parse(r.datagram)
		m.receiveSIDRRep(&r.sidrRep)
	case mad.AttrLAP:
		r.lap.Parse(r.datagram)
		m.receiveLAP(&r.lap)
	case mad.AttrAPR:
		// This end sends no LAP.
		m.refuse(reason.CMAlternatePath, 0, uint64(mad.AttrAPR))
	}
}

// Deadline returns when to call Expire, machine.Never for never.
func (m *Manager) Deadline() time.Duration { return m.timers.deadline() }

// Expire acts on deadlines that have passed.
func (m *Manager) Expire(now time.Duration) {
	for m.timers.deadline() <= now {
		m.timers[0].owner.expire(now)
	}
}

func (m *Manager) refuse(r reason.Reason, expected, found uint64) {
	m.config.Refuse(reason.Detail{Reason: r, Expected: expected, Found: found})
}

// tell passes an event to the handler.
func (m *Manager) tell(e Event) {
	m.event = e
	m.handler(&m.event)
	m.event = Event{}
}

// message builds a message. If the device's UDP port is not the standard one, the header
// announces it.
func (m *Manager) message(a mad.AttributeID, tid uint64, body interface{ Put(*[mad.Len]byte) }) *[mad.Len]byte {
	h := mad.NewHeader(a, tid)
	if p := m.config.Local.Port(); p != ib.UDPPort {
		h.Port = p
	}
	d := new([mad.Len]byte)
	h.Put(d)
	body.Put(d)
	return d
}

// Messages of no connection are answered at no more than this rate. With a forged
// source the answer goes to a third party, so it is no longer than the message
// itself.
const (
	answerBurst = 1000
	answerEvery = time.Millisecond
)

// answer answers the received message, which belongs to no connection.
func (m *Manager) answer(d *[mad.Len]byte) {
	if !m.answers.take(m.received.now) {
		m.refuse(reason.CMAnswerRate, uint64(time.Second/answerEvery), m.number(m.received.from()))
		return
	}
	m.reply(d)
}

// reply sends a message to the source of the one that is being received.
func (m *Manager) reply(d *[mad.Len]byte) {
	m.put(pending{m.received.back, d, true})
}

// newID draws an ID that neither a connection nor a lookup has. It ends after a few draws,
// because there are more IDs than memory for connections.
func (m *Manager) newID() uint32 {
	for {
		id := m.config.Random()
		if _, used := m.conns[id]; used {
			continue
		}
		if _, used := m.lookups[id]; !used && id != 0 {
			return id
		}
	}
}

// low returns the part of an address that fits in a Detail.
func low(a netip.Addr) uint64 {
	if !a.IsValid() {
		return 0
	}
	b := a.As16()
	return uint64(b[12])<<24 | uint64(b[13])<<16 | uint64(b[14])<<8 | uint64(b[15])
}
