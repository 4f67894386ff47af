package sealed

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

const (
	// renewBytes is how much a peer may send with one key before it gets another. TLS 1.3 renews AES-GCM keys
	// after about as much (RFC 8446 5.5).
	renewBytes = 256 << 30

	// unrenewed is by how much a sender may exceed that if its key is not renewed.
	unrenewed = 4

	// maxSPIs is how many SPIs a master key has: 0 is none. It is more than all sessions together need.
	maxSPIs = psp.Phase - 1

	// maxPeers bounds the peers that have keys, maxHostPeers those of one address, which differ by the UDP port that they say they
	// have, and maxSessions the connections of each.
	maxPeers     = 4096
	maxHostPeers = 128
	maxSessions  = 8
)

// An inbound is a key that a peer seals packets with for this device.
type inbound struct {
	key     *psp.Key
	head    uint64 // of its packets, up to the IV
	number  uint64 // of the key, in the order in which keys are given away
	session *session
	revoked atomic.Bool

	// accepted is set when the peer has proved who it is. Until then packets are neither decrypted nor delivered, and
	// the fields below are not set.
	accepted atomic.Bool
	from     netip.Addr // of the peer, as the device has it
	behind   bool       // the peer is behind a translator: packets may come from anywhere

	// used is set when a packet was opened, and cleared when the peer is dialled.
	used atomic.Bool

	// The link's, which one goroutine at a time uses.
	window psp.Window
	bytes  uint64
	asked  bool // for another key
}

// An outbound is a key that this device seals packets with for a peer.
type outbound struct {
	key  *psp.Key
	port uint16 // UDP port of the peer for PSP packets

	iv, bytes atomic.Uint64 // used
}

// A peer is another device.
type peer struct {
	at       netip.AddrPort // of the device, without a zone; an alias if it is behind a translator
	via      netip.Addr     // where it calls from
	name     pairName       // of this device, for the peer
	theirs   pairName       // of the peer, for this device; zero before its first offer
	behind   *translated    // nil if no translator hides the peer
	inside   atomic.Bool    // a translator hides this device from the peer
	seen     netip.Addr     // what the peer takes this device's address to be
	sent     atomic.Bool    // something was sent through that translator since the last tick
	pause    time.Duration  // before the next keepalive
	due      time.Time      // when it is due
	sessions []*session     // oldest first, and those that replace others behind them
	proved   bool           // its address, at some time
	heard    time.Time      // the last time that it has made an offer
	out      atomic.Pointer[outbound]
	refused  atomic.Pointer[link.Failure] // why the peer takes no packet with that key; nil if it is not known to refuse them
	gone     atomic.Bool                  // no longer one of the endpoint's

	// Of dialling.
	dialling bool
	retrying bool // will be dialled later
	waiting  []chan error
	failures int
}

// An Endpoint has the keys of a device and of its peers.
type Endpoint struct {
	address netip.Addr  // of the device
	device  uint16      // its UDP port
	port    uint16      // UDP port for PSP packets
	limit   uint64      // renewBytes
	spis    uint32      // of one master key: maxSPIs
	version psp.Version // of the keys that peers get
	clock   func() time.Time
	secret  [32]byte // of cookies
	report  atomic.Pointer[func(reason.Detail)]

	// admitted, if not nil, is called when a peer that has called is admitted, and may not wait.
	admitted func()

	mu      sync.Mutex
	masters [2][psp.MasterLen]byte
	phase   uint32 // of the master key in use: 0 or 1
	next    uint32 // SPI to give away next, without the phase
	issued  uint32 // SPIs of the master key in use that were given away
	keys    uint64 // given away
	inbound map[uint32]*inbound
	peers   map[netip.AddrPort]*peer
	named   map[pairName]*peer // behind translators
	aliases uint32             // given away
	links   []*Link
	keeper  *time.Timer // of keepalives; nil until one is needed
	closed  bool
}

// NewEndpoint makes the keys of the device of an address and UDP port, which receives PSP packets at another port.
func NewEndpoint(device netip.AddrPort, port uint16) *Endpoint {
	device = plain(device)
	e := &Endpoint{
		address: device.Addr(), device: device.Port(), port: port, limit: renewBytes, spis: maxSPIs, version: psp.AESGCM128, clock: time.Now, next: 1,
		inbound: map[uint32]*inbound{}, peers: map[netip.AddrPort]*peer{}, named: map[pairName]*peer{},
	}
	_, _ = rand.Read(e.secret[:]) // never fails
	for i := range e.masters {
		_, _ = rand.Read(e.masters[i][:]) // never fails
	}
	return e
}

// plain returns an address as packets have it.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// peer returns a peer, and makes room for a new one. The caller holds mu.
func (e *Endpoint) peer(at netip.AddrPort) (*peer, error) {
	at = plain(at)
	if p := e.peers[at]; p != nil {
		return p, nil
	}
	if isAlias(at.Addr()) {
		return nil, e.errBehind(at)
	}
	p, err := e.room(at.Addr())
	if err != nil {
		return nil, err
	}
	p.at = at
	e.peers[at] = p
	return p, nil
}

// room makes room for a peer that calls from an address, and returns it. The caller holds mu.
func (e *Endpoint) room(from netip.Addr) (*peer, error) {
	if n := e.makeRoom(maxHostPeers, func(p *peer) bool { return p.via == from }); n >= maxHostPeers {
		return nil, reason.Detail{Reason: reason.PSPPeers, Expected: maxHostPeers, Found: uint64(n)}.Err()
	}
	if n := e.makeRoom(maxPeers, func(*peer) bool { return true }); n >= maxPeers {
		return nil, reason.Detail{Reason: reason.PSPPeers, Expected: maxPeers, Found: uint64(n)}.Err()
	}
	return &peer{via: from, name: newName()}, nil
}

// makeRoom forgets a peer that is gone if there are as many of a kind as may be. It returns how many are left.
func (e *Endpoint) makeRoom(most int, of func(*peer) bool) (n int) {
	if len(e.peers) < most {
		return len(e.peers)
	}
	var idle *peer
	for _, p := range e.peers {
		if of(p) {
			n++
			if !p.dialling && !slices.ContainsFunc(p.sessions, func(s *session) bool { return s.live }) {
				idle = p
			}
		}
	}
	if n >= most && idle != nil {
		e.remove(idle)
		n--
	}
	return n
}

// remove forgets a peer with its keys.
func (e *Endpoint) remove(p *peer) {
	for _, s := range p.sessions {
		e.revoke(s)
	}
	p.gone.Store(true)
	delete(e.peers, p.at)
	if p.behind != nil {
		delete(e.named, p.behind.name)
	}
}

// issue gives the peer of a session another key. A master key that has no SPI left is replaced, as a second key with an
// SPI would be the first one again.
func (e *Endpoint) issue(s *session) {
	if e.issued == e.spis {
		e.rotate()
		if in := s.in[0]; in != nil && in.phase() == e.phase {
			return // rotate has given it one
		}
	}
	spi := e.next | e.phase*psp.Phase
	e.issued++
	if e.next++; e.next > e.spis {
		e.next = 1
	}
	e.keys++
	o := offer{version: e.version, spi: spi, port: e.port, device: e.device, you: s.from}
	b, err := psp.Derive(&e.masters[e.phase], spi, o.version)
	var key *psp.Key
	if err == nil {
		key, err = psp.NewKey(spi, o.version, b)
	}
	if err != nil {
		panic("psp: " + err.Error()) // lengths and version are right
	}
	copy(o.key[:], b)
	e.drop(s.in[1])
	in := &inbound{key: key, head: key.Head(psp.NextUDP), number: e.keys, session: s}
	if s.peer != nil {
		in.accept(s.peer)
	}
	s.in[1], s.in[0] = s.in[0], in
	e.inbound[spi] = s.in[0]
	s.offer = o
	e.offer(s)
}

// offer tells the peer of a session its newest key.
func (e *Endpoint) offer(s *session) {
	if s.peer != nil { // others do not need the rest
		s.offer.self, s.offer.name = e.address, s.peer.name
	}
	var b [offerLen]byte
	s.offer.put(b[:])
	s.tell(b[:])
}

// accept makes packets with a key count as those of a peer.
func (in *inbound) accept(p *peer) {
	in.from, in.behind = p.at.Addr(), p.behind != nil
	in.accepted.Store(true)
}

// phase says which master key the key is derived from.
func (in *inbound) phase() uint32 { return in.key.SPI() / psp.Phase }

func (e *Endpoint) drop(in *inbound) {
	if in != nil {
		in.revoked.Store(true)
		delete(e.inbound, in.key.SPI())
	}
}

func (e *Endpoint) revoke(s *session) {
	e.drop(s.in[0])
	e.drop(s.in[1])
	s.in = [2]*inbound{}
}

// renew gives the peer of a key that was much used another one. The link calls it.
func (e *Endpoint) renew(in *inbound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := in.session; s.live && s.in[0] == in {
		e.issue(s)
	}
}

// Rotate replaces the older master key, and gives all peers keys of the new one. Keys of the
// master key that was in use until now stay valid until the next rotation.
func (e *Endpoint) Rotate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rotate()
}

// rotate is Rotate. The caller holds mu.
func (e *Endpoint) rotate() {
	e.phase ^= 1
	e.issued = 0
	_, _ = rand.Read(e.masters[e.phase][:]) // never fails
	for _, in := range e.inbound {          // also of callers that are not admitted
		if in.phase() != e.phase {
			continue
		}
		e.drop(in)
		for i, x := range in.session.in {
			if x == in {
				in.session.in[i] = nil
			}
		}
	}
	for _, p := range e.peers {
		for _, s := range p.sessions {
			if s.live {
				e.issue(s)
			}
		}
	}
}

// find returns the key of an SPI, nil if no peer has it, and how many peers have.
func (e *Endpoint) find(spi uint32) (*inbound, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inbound[spi], len(e.inbound)
}

// keyOf returns the peer at an address if it has given this device a key.
func (e *Endpoint) keyOf(at netip.AddrPort) (*peer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.peers[plain(at)]; p != nil && p.out.Load() != nil {
		return p, nil
	}
	return nil, errNoKey(0)
}

// tell reports what has happened.
func (e *Endpoint) tell(why reason.Detail) {
	if f := e.report.Load(); f != nil {
		(*f)(why)
	}
}

func errNoKey(found uint64) error {
	return reason.Detail{Reason: reason.PSPNoKey, Expected: 1, Found: found}.Err()
}
