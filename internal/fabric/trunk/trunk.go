package trunk

import (
	"encoding/binary"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// Times of sessions.
const (
	helloEvery = 250 * time.Millisecond // while there is no session
	aliveEvery = 500 * time.Millisecond // a packet at least, while there is one
	silence    = 2 * time.Second        // without a packet ends a session
	pause      = 2 * time.Second        // after a session that one end refused
)

// A Port is what the trunk is plugged into.
type Port interface {
	// Nodes gets the peer and the GUIDs of its nodes and ports before the link comes up. It
	// can refuse them.
	Nodes(p *Peer, guids []uint64) reason.Detail

	// Connect connects the port, if it looks for a neighbor, and Disconnect takes its link
	// down. PortChanged tells the trunk of both.
	Connect(now time.Duration, l hardware.Link)
	Disconnect(now time.Duration)

	// Frame gets a frame from the peer's port. It keeps nothing of it.
	Frame(now time.Duration, frame []byte)

	// Ended tells that a session has ended, and why.
	Ended(d reason.Detail)
}

// A Config is what a trunk is made with.
type Config struct {
	Cable     uint8 // of several trunks between two processes, which this is
	Use       Use
	Self      Peer // what the other end is told
	GUIDs     []uint64
	Secret    []byte // both ends have the same; may be empty
	Supported hardware.Link
	Random    func() uint64 // for connection IDs; must not be predictable
	Port      Port
}

// A Trunk is one end.
type Trunk struct {
	config Config
	now    time.Duration
	state  PortState

	own       uint64 // connection ID; new for each session
	candidate uint64 // the other end's, unproven
	answer    bool   // a Hello is to be answered
	helloAt   time.Duration
	silent    time.Duration // no Hello is sent or answered until then

	session  *session // nil without one
	farewell []byte   // to be sent
}

// New returns one end of a trunk.
func New(now time.Duration, c Config) *Trunk {
	t := &Trunk{config: c, now: now, helloAt: now}
	t.renew()
	return t
}

// renew takes a new connection ID.
func (t *Trunk) renew() {
	for t.own = 0; t.own == 0; {
		t.own = t.config.Random()
	}
}

// Peer returns what the other end says of itself, and reports whether there is a session with
// it.
func (t *Trunk) Peer() (Peer, bool) {
	if t.session == nil || !t.session.greeted {
		return Peer{}, false
	}
	return t.session.who, true
}

// Receive takes a packet from the address of the peer. It returns why it dropped it, if it
// did.
func (t *Trunk) Receive(now time.Duration, packet []byte) reason.Detail {
	t.now = now
	var h header
	if !h.parse(packet) {
		return reason.Detail{Reason: reason.FabricTrunkPacket, Expected: headerLen, Found: uint64(len(packet))}
	}
	if h.version != Version {
		return reason.Detail{Reason: reason.FabricTrunkVersion, Expected: Version, Found: uint64(h.version)}
	}
	if h.use != t.config.Use {
		return reason.Detail{Reason: reason.FabricTrunkNetwork, Expected: uint64(t.config.Use), Found: uint64(h.use)}
	}
	if h.kind == hello {
		return t.receiveHello(&h, packet)
	}
	s := t.session
	if s == nil || h.source != s.peer || h.dest != t.own {
		return reason.Detail{Reason: reason.FabricTrunkSession, Expected: t.own, Found: h.dest}
	}
	switch {
	case h.kind == data:
		return t.receiveData(packet)
	case h.kind == farewell && len(packet) == farewellLen:
		t.end(reason.Detail{Reason: reason.FabricTrunkClosed, Expected: 1, Found: uint64(binary.BigEndian.Uint16(packet[headerLen:]))})
		t.rest()
		return reason.Detail{}
	}
	return reason.Detail{Reason: reason.FabricTrunkPacket, Expected: uint64(data), Found: uint64(h.kind)}
}

// receiveHello takes a Hello. Only one that names the own ID proves that its sender gets what
// is sent to its address; others change nothing but whom the next Hello names.
func (t *Trunk) receiveHello(h *header, packet []byte) reason.Detail {
	if !authentic(packet, t.config.Secret) {
		return reason.Detail{Reason: reason.FabricTrunkSecret, Expected: macLen, Found: uint64(len(packet))}
	}
	who, ok := parseHello(packet)
	if !ok {
		return reason.Detail{Reason: reason.FabricTrunkPacket, Expected: maxName, Found: uint64(len(packet))}
	}
	if t.now < t.silent {
		return reason.Detail{}
	}
	s := t.session
	switch {
	case s != nil && h.source == s.peer && h.dest == t.own: // it has not heard of the session yet
		s.acknowledge = true
	case h.dest != t.own:
		t.candidate, t.answer = h.source, true
	case s != nil: // the peer began again
		t.end(reason.Detail{Reason: reason.FabricTrunkSilent, Found: uint64(t.now - s.heard)})
		t.candidate, t.answer = h.source, true
	default:
		t.begin(h.source, who)
	}
	return reason.Detail{}
}

// begin begins a session.
func (t *Trunk) begin(peer uint64, who Peer) {
	t.candidate, t.answer = peer, false
	t.session = &session{peer: peer, who: who, training: training{leads: t.own > peer}, heard: t.now, told: t.now, acknowledge: true}
	t.session.receiver.awaited = firstNumber
	t.session.sender.init()
	t.helloAt = t.now
	t.session.sender.write(appendGUIDs(nil, t.config.GUIDs))
}

// end ends the session. The port loses its link.
func (t *Trunk) end(d reason.Detail) {
	s := t.session
	if s == nil {
		return
	}
	t.session = nil
	t.renew()
	t.candidate, t.helloAt = 0, t.now
	if s.up {
		t.config.Port.Disconnect(t.now)
	}
	t.config.Port.Ended(d)
}

// rest sends no Hello for some time.
func (t *Trunk) rest() {
	t.silent = t.now + pause
	t.helloAt = t.silent
}

// refuse ends the session and tells the peer why.
func (t *Trunk) refuse(d reason.Detail) {
	s := t.session
	if s == nil {
		return
	}
	b := make([]byte, headerLen, farewellLen)
	h := header{version: Version, kind: farewell, cable: t.config.Cable, use: t.config.Use, source: t.own, dest: s.peer}
	h.put(b)
	t.farewell = appendReason(b, d)
	t.end(d)
	t.rest()
}

// Close ends the session. Next has a last packet for the peer then.
func (t *Trunk) Close(now time.Duration) {
	t.now = now
	t.refuse(reason.Detail{Reason: reason.FabricTrunkClosed})
	t.silent, t.helloAt = Never, Never
}

// Deadline returns when Next has something to do.
func (t *Trunk) Deadline() time.Duration {
	s := t.session
	switch {
	case t.farewell != nil || t.answer:
		return t.now
	case s == nil:
		return t.helloAt
	case s.acknowledge || s.sender.ready():
		return t.now
	}
	d := min(s.sender.timer, s.heard+silence, s.told+aliveEvery)
	if !s.known {
		d = min(d, t.helloAt)
	}
	return d
}

// Next returns the next packet to send now, nil if there is none. It is valid until the next call of
// the trunk.
func (t *Trunk) Next(now time.Duration) []byte {
	t.now = now
	if b := t.farewell; b != nil {
		t.farewell = nil
		return b
	}
	s := t.session
	if s != nil && now-s.heard >= silence {
		t.end(reason.Detail{Reason: reason.FabricTrunkSilent, Expected: uint64(silence), Found: uint64(now - s.heard)})
		s = nil
	}
	if t.answer || now >= t.helloAt && (s == nil || !s.known) {
		return t.hello()
	}
	if s == nil {
		return nil
	}
	return s.next(now, header{version: Version, kind: data, cable: t.config.Cable, use: t.config.Use, source: t.own, dest: s.peer})
}

func (t *Trunk) hello() []byte {
	t.answer = false
	t.helloAt = t.now + helloEvery
	h := header{version: Version, kind: hello, cable: t.config.Cable, use: t.config.Use, source: t.own, dest: t.candidate}
	return appendHello(nil, h, &t.config.Self, t.config.Secret)
}

// Send sends a frame that leaves the port. Without a link it is lost, as on a cable that is cut. It
// returns why else it dropped the frame, if it did. The frame stays the caller's.
func (t *Trunk) Send(now time.Duration, f []byte) reason.Detail {
	t.now = now
	s := t.session
	if s == nil || !s.up {
		return reason.Detail{}
	}
	waiting := s.sender.waiting()
	if waiting >= mostWaiting { // more than the ports' credits allow
		d := reason.Detail{Reason: reason.FabricTrunkOverrun, Expected: mostWaiting, Found: uint64(waiting)}
		t.refuse(d)
		return d
	}
	var h ib.LRH
	if len(f) > ib.FlowControlLen && h.Parse(f) && h.VL == ib.ManagementVL && waiting >= mostWaiting/2 { // lane 15 has no credits
		return reason.Detail{Reason: reason.FabricManagementFull, Expected: mostWaiting / 2, Found: uint64(waiting)}
	}
	var b [messageHeaderLen + epochLen]byte
	s.sender.write(appendMessage(b[:0], frame, len(f), s.epoch))
	s.sender.write(f)
	return reason.Detail{}
}

// Waiting returns the number of segments that the peer has not acknowledged.
func (t *Trunk) Waiting() int {
	if t.session == nil {
		return 0
	}
	return t.session.sender.waiting()
}

// mostWaiting is the most segments that may wait for the peer. The credits of 15 lanes are for
// less than half of that.
const mostWaiting = 4096
