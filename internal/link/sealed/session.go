package sealed

import (
	"net/netip"
	"slices"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// A session is the relation to one peer by one connection of the meeting.
type session struct {
	line
	peer   *peer       // nil before the peer has proved who it is
	from   netip.Addr  // of the peer, as the connection has it
	proved bool        // the peer has proved its address
	taken  bool        // the peer has admitted this device, which has dialled it
	live   bool        // the connection is open
	early  bool        // the peer may not have admitted this device yet, and there is another session with traffic
	offer  offer       // the last one to the peer
	in     [2]*inbound // valid keys of the peer, the newest one first
	out    *outbound
}

// A line is a session's connection. The functions may not wait.
type line struct {
	dialled  bool
	identity string // of the peer: its public key
	tell     func(offer []byte)
	hangUp   func()
	away     func() bool // the peer has left the address from which it has called; nil if it was dialled
}

// mayBegin reports why a peer may not have another session. The one that it replaces does not count.
func (p *peer) mayBegin(s *session) error {
	n := 0
	for _, x := range p.sessions {
		if x.live && !x.replacedBy(s) {
			n++
		}
	}
	if n >= maxSessions {
		return reason.Detail{Reason: reason.PSPPeers, Expected: maxSessions, Found: uint64(n)}.Err()
	}
	return nil
}

// replacedBy reports whether the same end has made another connection of the same direction, as a device does that was
// opened again or does not know whether this one still leads to its peer.
func (s *session) replacedBy(x *session) bool { return s.dialled == x.dialled && s.same(x) }

// same reports whether the ends of two connections have one public key.
func (s *session) same(x *session) bool { return s.identity != "" && s.identity == x.identity }

// begin makes the session of a connection to a peer that has proved who it is. The caller holds mu, as of the methods
// below.
func (e *Endpoint) begin(p *peer, proved bool, l line) *session {
	s := &session{line: l, from: p.via, live: true}
	e.join(p, s, proved)
	return s
}

// promise makes the session of a peer that has called and not yet proved who it is, and gives it a key. Packets with
// the key do not count before admit.
func (e *Endpoint) promise(from netip.Addr, l line) *session {
	s := &session{line: l, from: from.Unmap().WithZone(""), live: true}
	e.issue(s)
	return s
}

// admit makes a peer that has called, has proved who it is and has made an offer the one of its session.
func (e *Endpoint) admit(s *session, o *offer, proved bool) error {
	p, err := e.caller(s.from, o)
	if err != nil {
		return err
	}
	e.endMoved(p)
	if err := p.mayBegin(s); err != nil {
		return err
	}
	e.join(p, s, proved)
	if in := s.in[0]; in == nil || in.phase() != e.phase {
		e.issue(s) // Rotate gives none to those that are not admitted
	}
	if e.admitted != nil {
		e.admitted()
	}
	return nil
}

func (e *Endpoint) join(p *peer, s *session, proved bool) {
	s.peer, s.proved = p, proved
	var kept []*session
	for i, x := range p.sessions {
		// Packets of the last session that ended may still be on their way. The peer of the one whose key is used
		// may still use its own.
		if x.live || i == len(p.sessions)-1 || x.out != nil && x.out == p.out.Load() {
			kept = append(kept, x)
			continue
		}
		e.revoke(x)
	}
	at := len(kept)
	for i, x := range kept {
		if x.live && x.replacedBy(s) {
			at = i + 1 // in its place
		}
	}
	p.sessions = slices.Insert(kept, at, s)
	for _, in := range s.in {
		if in != nil {
			in.accept(p)
		}
	}
}

// endMoved ends the sessions of callers that have left the address of a peer: connections of QUIC may go to another one
// (RFC 9000 9), and the next caller gets what is for this one.
func (e *Endpoint) endMoved(p *peer) {
	for _, x := range p.sessions {
		if x.live && p.behind == nil && x.away != nil && x.away() {
			x.hangUp()
			e.end(x)
		}
	}
}

// end notes that a session's connection has ended. Its keys are valid until another session has.
func (e *Endpoint) end(s *session) {
	s.live = false
	s.peer.choose()
}

// choose chooses the key to send with: that of a session that is open, else of the last one. A later session takes
// the place of one that is open if the peer has proved its address in it, or is the same by its public key: the other one
// may be of a device that is gone. Once the peer has proved its address only sessions in which it has count, also
// when they have ended: no caller can take a peer's place.
func (p *peer) choose() {
	var best *session
	for _, s := range p.sessions {
		switch {
		case s.out == nil || s.early || !s.proved && p.proved:
		case best == nil || !best.live || s.live && (s.proved || s.same(best)):
			best = s
		}
	}
	if best != nil {
		p.out.Store(best.out)
	}
}

// met reports whether packets can be sent to the peer, which has proved its address if it has to, or ever did.
func (p *peer) met(prove bool) bool {
	prove = prove || p.proved
	return slices.ContainsFunc(p.sessions, func(s *session) bool { return s.live && s.out != nil && (s.proved || !prove) })
}

// take notes the key that a peer offers.
func (e *Endpoint) take(s *session, o *offer) error {
	if s.out != nil && s.out.key.SPI() == o.spi {
		// Again; to count its IVs from 0 would use them twice. The peer says so when it has admitted this device, with
		// the name that it has given it.
		s.peer.theirs, s.taken = o.name, true
		if s.early {
			s.early = false
			s.peer.replace(s)
		}
		return nil
	}
	first := s.out == nil
	key, err := psp.NewKey(o.spi, o.version, o.keyBytes())
	if err != nil {
		return err
	}
	p := s.peer
	s.out = &outbound{key: key, port: o.port}
	p.refused.Store(nil)
	p.proved = p.proved || s.proved
	if first && !s.dialled && s.in[0] != nil {
		e.offer(s)
	}
	s.early = first && s.dialled && p.traffic()
	p.replace(s)
	p.seen, p.theirs = o.you, o.name
	p.inside.Store(differ(o.you, e.address))
	if p.inside.Load() {
		e.beginKeepalives(p)
	}
	return nil
}

// replace makes a session take the place of earlier ones. One whose key the peer does not take yet has to wait, so that no
// packets of connections that exist are lost.
func (p *peer) replace(s *session) {
	p.choose()
	for _, x := range p.sessions {
		if x == s || s.early {
			break
		}
		if x.live && x.replacedBy(s) {
			x.hangUp()
		}
	}
}

// refuses notes that the peer has ended a session that this device has dialled, because it does not trust it. If the key
// to send with is that of the session, the peer takes no packet.
func (p *peer) refuses(s *session, why *link.Failure) {
	if s != nil && !s.taken && s.out != nil && s.out == p.out.Load() {
		p.refused.Store(why)
	}
}

// traffic reports whether a packet of the peer was opened since it was dialled.
func (p *peer) traffic() bool {
	return slices.ContainsFunc(p.sessions, func(s *session) bool {
		return slices.ContainsFunc(s.in[:], func(in *inbound) bool { return in != nil && in.used.Load() })
	})
}

// dialled notes that the peer is dialled.
func (p *peer) dialled() {
	for _, s := range p.sessions {
		for _, in := range s.in {
			if in != nil {
				in.used.Store(false)
			}
		}
	}
}
