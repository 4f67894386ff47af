package sealed

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// This file is about address translators (NAT) between this device and its peers. docs/security.md has the argument why
// only the peer can redirect packets.

// challengePause is the time between two challenges for one address of a peer.
const challengePause = 25 * time.Millisecond

// Peers behind a translator have addresses that no host has, because several may have the same
// address, and others the translator's: 240.0.0.0/4 (RFC 1112 4) and 2001:20::/28 (RFC 7343).
var (
	aliases4 = netip.MustParsePrefix("240.0.0.0/4")
	aliases6 = netip.MustParsePrefix("2001:20::/28")
)

func isAlias(a netip.Addr) bool { return aliases4.Contains(a) || aliases6.Contains(a) }

// A pairName names a peer that has another address than it says, for as long as both programs run. Its
// sender draws it at random and tells it one peer only.
type pairName [16]byte

// A translated is what is known of a peer behind a translator.
type translated struct {
	name  pairName
	told  netip.Addr                     // the address that it says it has
	outer atomic.Pointer[netip.AddrPort] // where its packets come from; nil until one has come

	// The link's: of packets that were not overtaken by others, of those from elsewhere than outer.
	newest    uint64 // number of the newest key
	candidate netip.AddrPort
	asked     time.Time
}

// newName draws a name.
func newName() (n pairName) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// differ reports whether an address in an offer is another one than the address of the connection.
func differ(said, found netip.Addr) bool {
	return said.IsValid() && !said.IsUnspecified() && said != found
}

// caller returns the peer that calls from an address with an offer. One that says it has another address is behind a
// translator. The caller holds mu.
func (e *Endpoint) caller(from netip.Addr, o *offer) (*peer, error) {
	from = from.Unmap().WithZone("")
	if !differ(o.self, from) {
		return e.peer(netip.AddrPortFrom(from, o.device))
	}
	// One with open ports may call a device that has called it, and is the peer that it was then.
	if p := e.peers[netip.AddrPortFrom(from, o.device)]; p != nil && p.behind == nil && p.theirs == o.name && o.name != (pairName{}) {
		return p, nil
	}
	if p := e.named[o.name]; p != nil {
		p.via, p.behind.told = from, o.self
		return p, nil
	}
	p, err := e.room(from)
	if err != nil {
		return nil, err
	}
	p.at = netip.AddrPortFrom(e.alias(from), o.device)
	p.behind = &translated{name: o.name, told: o.self}
	e.peers[p.at], e.named[o.name] = p, p
	return p, nil
}

// alias returns an address that no peer has.
func (e *Endpoint) alias(from netip.Addr) netip.Addr {
	for {
		e.aliases++
		b := aliases6.Addr().As16()
		if from.Is4() {
			b = aliases4.Addr().As16()
		}
		n := e.aliases & (1<<27 - 1) // 255.255.255.255 is a broadcast
		binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(b[12:])|n)
		a := netip.AddrFrom16(b).Unmap()
		if !e.taken(a) {
			return a
		}
	}
}

func (e *Endpoint) taken(a netip.Addr) bool {
	for at := range e.peers {
		if at.Addr() == a {
			return true
		}
	}
	return false
}

// A way is where packets to a peer go. Those of a translated path leave from the port where this device receives, and
// so come back through the translator's entry for it.
type way struct {
	to   netip.AddrPort // invalid if it is not known
	back bool
}

// way returns the way to the peer, whose port for PSP packets is port.
func (p *peer) way(port uint16) way {
	if p.behind == nil {
		return way{netip.AddrPortFrom(p.at.Addr(), port), p.inside.Load()}
	}
	w := way{back: true}
	if a := p.behind.outer.Load(); a != nil {
		w.to = *a
	}
	return w
}

// openWay opens a flow of the other link.
func (l *Link) openWay(w way, label uint32) (*link.DatagramFlow, error) {
	switch {
	case !w.to.IsValid():
		return nil, errNoKey(0)
	case !w.back:
		return l.over.OpenFlow(w.to, label)
	case l.returner == nil:
		return nil, reason.NotSupported("address translator: expected a link that sends from the port where it receives")
	}
	return l.returner.OpenReturn(w.to)
}

// follow notes from where a packet of a peer behind a translator has come. Its integrity was
// checked, and it is new. The peer is asked by a challenge before its packets go elsewhere than before: a copy of a packet proves
// nothing. The first address is the one from which the peer has called, which proves it.
func (l *Link) follow(in *inbound, iv uint64) {
	p, src := in.session.peer, l.arrived.Src
	t := p.behind
	if in.number < t.newest || !in.window.Newest(iv) {
		return // it was overtaken, perhaps on purpose
	}
	t.newest = in.number
	switch outer := t.outer.Load(); {
	case outer != nil && *outer == src:
	case outer == nil && src.Addr() == in.session.from:
		t.outer.Store(&src)
	default:
		if now := l.e.clock(); t.candidate != src || now.Sub(t.asked) >= challengePause {
			t.candidate, t.asked = src, now
			l.control(p, src, challenge, l.e.cookie(p, src))
		}
	}
}

// cookie returns what a peer that receives at an address sends back.
func (e *Endpoint) cookie(p *peer, at netip.AddrPort) uint64 {
	h := hmac.New(sha256.New, e.secret[:])
	h.Write(p.behind.name[:])
	b, _ := at.MarshalBinary() // never fails
	h.Write(b)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// moved notes that a peer has answered a challenge from where it was sent to.
func (l *Link) moved(in *inbound, iv, value uint64) {
	p, src := in.session.peer, l.arrived.Src
	if p.behind == nil || value != l.e.cookie(p, src) || in.number < p.behind.newest || !in.window.Newest(iv) {
		return
	}
	before := uint64(0)
	if o := p.behind.outer.Swap(&src); o != nil {
		if *o == src {
			return
		}
		before = uint64(o.Port())
	}
	l.e.tell(reason.Detail{Reason: reason.PSPMoved, Expected: before, Found: uint64(src.Port())})
}

// Translation implements link.Translator.
func (e *Endpoint) Translation(at netip.AddrPort) (t link.Translation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[plain(at)]
	if p == nil {
		return t
	}
	if p.inside.Load() {
		t.Own = p.seen
	}
	if p.behind != nil {
		t.Outer = netip.AddrPortFrom(p.via, 0)
		if o := p.behind.outer.Load(); o != nil {
			t.Outer = *o
		}
	}
	return t
}

// errBehind returns why a peer cannot be called: it, or one that says it has the address, is behind a translator. It
// returns nil if none is. The caller holds mu.
func (e *Endpoint) errBehind(at netip.AddrPort) error {
	at = plain(at)
	d := reason.Detail{Reason: reason.PSPBehind, Expected: low(at.Addr())}
	if p := e.peers[at]; p != nil && p.behind != nil {
		d.Found = low(p.via)
		return d.Err()
	}
	for _, p := range e.named {
		if p.behind.told == at.Addr() && p.at.Port() == at.Port() {
			d.Found = low(p.via)
			return d.Err()
		}
	}
	if isAlias(at.Addr()) {
		return d.Err()
	}
	return nil
}

// unmet returns why there are no keys of a peer that could not be called because of err.
func (e *Endpoint) unmet(at netip.AddrPort, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.errBehind(at), err)
}

// A controlKind is what a control message is for.
type controlKind uint8

const (
	// keepalive keeps the entry of a translator between this device and the peer alive. It is not answered.
	keepalive controlKind = 1 + iota
	// challenge asks a peer behind a translator whether it receives at an address.
	challenge
	// response answers a challenge with its value.
	response
)

// Control messages are packets of their own with another next header, so that those of a device pass them by. Their
// content is the kind, 7 bytes of 0, and a value.
const (
	controlLen  = 16
	nextControl = 253 // for experiments (RFC 3692)
)

// control sends a control message to a peer. It is no longer than any packet that it may answer.
func (l *Link) control(p *peer, to netip.AddrPort, kind controlKind, value uint64) {
	out := p.out.Load()
	if out == nil || l.returner == nil {
		return
	}
	f, err := l.returner.OpenReturn(to)
	if err != nil {
		return
	}
	defer l.over.CloseFlow(&f.Flow)
	var b [psp.Overhead + controlLen]byte
	b[psp.HeaderLen] = byte(kind)
	binary.BigEndian.PutUint64(b[psp.HeaderLen+8:], value)
	h := psp.Header{Next: nextControl, IV: out.iv.Add(1) - 1}
	if out.key.Seal(b[:], &h) != nil {
		return
	}
	_ = l.over.Send(&link.Tx{Pieces: [][]byte{b[:]}, Bytes: len(b), Size: len(b), Flow: &f.Flow}) // may be lost, as any packet
}

// controlled takes a control message, whose first 8 bytes were decrypted to head.
func (l *Link) controlled(in *inbound, iv, head uint64, data []byte) (why reason.Detail) {
	p := in.session.peer
	value := binary.BigEndian.Uint64(data[8:])
	switch kind := controlKind(head >> 56); {
	case kind == keepalive:
	case kind == challenge && p.inside.Load():
		if out := p.out.Load(); out != nil {
			if w := p.way(out.port); w.to.IsValid() {
				l.control(p, w.to, response, value)
			}
		}
	case kind == response && p.behind != nil:
		l.moved(in, iv, value)
	default:
		return reason.Detail{Reason: reason.PSPPacket, Expected: uint64(keepalive), Found: uint64(kind)}
	}
	return reason.Detail{}
}
