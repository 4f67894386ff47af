package sealed

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/psp"
)

var (
	public  = netip.MustParseAddrPort("203.0.113.1:4791")
	private = netip.MustParseAddrPort("192.168.1.2:4791")
	outside = netip.MustParseAddr("198.51.100.9")
)

// callThrough makes a client behind a translator known to a server, as a meeting does that the client begins. The server is
// itself behind one if it does not have the address that the client calls.
func callThrough(t testing.TB, c, s *Endpoint, server netip.AddrPort, from netip.Addr) (x, y *session) {
	t.Helper()
	p, err := c.peer(server)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(b []byte) *offer {
		o, err := parseOffer(b)
		if err != nil {
			t.Fatal(err)
		}
		return &o
	}
	answer := func(b []byte) { _ = c.take(x, parse(b)) }
	x = c.begin(p, true, line{dialled: true, hangUp: func() {}, tell: func(b []byte) {
		o := parse(b)
		if y.peer == nil {
			if err := s.admit(y, o, false); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.take(y, o)
	}})
	y = s.promise(from, line{hangUp: func() {}, tell: answer})
	c.issue(x)
	return x, y
}

// A client is a device behind a translator, connected to a server's.
type client struct {
	*rig.Host
	e        *Endpoint
	link     *Link
	x, y     *session
	qps      [2]*adapter.QP // its own and the server's
	cqs      [2]*adapter.CQ
	src, dst []byte // memory of the client and of the server
	from, to *memory.Region
}

// device makes a device that encrypts on a link of a simulated network.
func device(t testing.TB, n *simnet.Network, on *simnet.Link, e *Endpoint, seed uint64) (h *rig.Host, l *Link) {
	t.Helper()
	e.clock = func() time.Time { return time.Unix(0, 0).Add(n.Clock()) }
	l = New(on, e, met{})
	h = &rig.Host{Net: n, Link: on}
	h.Dev = adapter.Open(adapter.Config{Networks: rocev2.Networks([]*Link{l}), Clock: n.Clock, Manual: true, Random: n.Random(seed).Uint32})
	var err error
	if h.PD, err = h.Dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	n.Drive(h.Dev)
	t.Cleanup(func() { _ = l.Close() })
	return h, l
}

// clients makes a server and clients behind a translator, all of which have the same address.
func clients(t testing.TB, n *simnet.Network, nat *simnet.NAT, lc simnet.LinkConfig, count int) (server *rig.Host, s *Endpoint, all []*client) {
	t.Helper()
	lc.AnyICRC = true
	s = NewEndpoint(public, psp.Port)
	server, _ = device(t, n, n.Attach(netip.AddrPortFrom(public.Addr(), psp.Port), lc), s, 1)
	for i := range count {
		c := &client{e: NewEndpoint(private, psp.Port)}
		c.Host, c.link = device(t, n, nat.Attach(netip.AddrPortFrom(private.Addr(), psp.Port), lc), c.e, uint64(i)+2)
		c.x, c.y = callThrough(t, c.e, s, public, outside)
		n.Poke()
		n.Sleep(20 * time.Millisecond) // for the first keepalive
		for j, h := range []*rig.Host{c.Host, server} {
			var err error
			if c.cqs[j], err = h.Dev.CreateCQ(64, nil); err != nil {
				t.Fatal(err)
			}
			if c.qps[j], err = h.PD.CreateQP(&adapter.QPConfig{
				Type: qp.RC, SendCQ: c.cqs[j], RecvCQ: c.cqs[j], SendDepth: 16, SendSGE: 1, RecvDepth: 16, RecvSGE: 1,
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := rig.Connect(c.qps[0], c.qps[1], rig.Options{Peer: [2]qp.Endpoint{public, c.y.peer.at}}); err != nil {
			t.Fatal(err)
		}
		c.src, c.dst = noise(40_000), make([]byte, 40_000)
		var err error
		if c.from, err = c.PD.Register(c.src, 0x10000, rig.AllAccess|qp.LocalWrite); err != nil {
			t.Fatal(err)
		}
		if c.to, err = server.PD.Register(c.dst, 0x20000, rig.AllAccess|qp.LocalWrite); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return server, s, all
}

// post posts a WRITE or a READ of the client, or of the server, between the same memory.
func (c *client) post(t testing.TB, op queue.Op, server bool) {
	t.Helper()
	i, own, other := 0, c.from, c.to
	if server {
		i, own, other = 1, c.to, c.from
	}
	addr := [2]uint64{0x10000, 0x20000}
	if err := rig.PostSend(c.qps[i], rig.Send{
		Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: addr[i], Length: uint32(len(c.src)), LKey: own.Key}},
		Addr: addr[1-i], RKey: other.Key,
	}); err != nil {
		t.Fatal(err)
	}
}

// done waits for the completion of what was posted, and compares the memory of both ends.
func (c *client) done(t testing.TB, server bool) {
	t.Helper()
	i := 0
	if server {
		i = 1
	}
	if r, err := c.Wait(c.cqs[i], 1); err != nil || r[0].Status != queue.Success {
		t.Fatalf("%+v, %v", r, err)
	}
	if !bytes.Equal(c.src, c.dst) {
		t.Error("the memory of the client and of the server differ")
	}
}

// Two clients behind one translator have the same address. The translator changes its address and ports again and again
// while they and the server transfer in both directions. Everything arrives, and where it belongs.
func TestTransfersThroughATranslatorThatRebinds(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := simnet.New(seed)
			nat := n.AddNAT(outside, 30*time.Second)
			lc := simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Millisecond, Bandwidth: 100 << 20, Loss: float64(seed%2) * .005}}
			_, s, all := clients(t, n, nat, lc, 2)
			moved := map[reason.Reason]int{}
			report := func(d reason.Detail) { moved[d.Reason]++ }
			s.report.Store(&report)
			if a, b := all[0].y.peer, all[1].y.peer; a == b || a.at.Addr() == b.at.Addr() || !isAlias(a.at.Addr()) {
				t.Fatalf("two clients are %v and %v for the server", a.at, b.at)
			}
			for i := range 12 {
				for j, c := range all {
					c.src[0], c.dst[1] = byte(i), byte(j) // bytes that differ
					c.post(t, queue.Write, false)
				}
				if i%3 == 1 {
					n.Sleep(1200 * time.Microsecond) // in the middle
					nat.Rebind(outside)
				}
				for _, c := range all {
					c.done(t, false)
					c.src[2]++
					c.post(t, queue.Read, true) // by the server
				}
				if i%3 == 2 {
					n.Sleep(1200 * time.Microsecond)
					nat.Rebind(netip.AddrFrom4([4]byte{198, 51, 100, byte(10 + i)}))
				}
				for _, c := range all {
					c.done(t, true)
				}
			}
			if moved[reason.PSPMoved] < 8 || len(moved) != 1 {
				t.Errorf("%v, expected a change of address for each of the clients 4 times or more", moved)
			}
		})
	}
}

// The translator changes its address while the client waits for the server, whose packets no longer arrive. The client hears nothing that
// it could answer. A keepalive shows the server the new address before its retries are used up.
func TestServerRepeatsToAClientThatIsRebound(t *testing.T) {
	for seed := range uint64(3) {
		n := simnet.New(seed)
		nat := n.AddNAT(outside, time.Minute)
		_, _, all := clients(t, n, nat, simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Millisecond}}, 1)
		c := all[0]
		c.post(t, queue.Write, false)
		c.done(t, false)
		c.src[0]++
		nat.Rebind(outside)
		c.post(t, queue.Read, true)
		for range 20 {
			n.Sleep(50 * time.Millisecond)
			c.e.tick()
			n.Poke()
		}
		if nat.Refused == 0 {
			t.Error("the server's packets still arrive")
		}
		c.done(t, true)
	}
}

// A connection is idle for longer than the translator keeps entries. Then the server begins. Without keepalives nothing of it
// would arrive.
func TestIdleConnectionOutlivesTheTranslatorsTimeout(t *testing.T) {
	for _, alive := range []bool{true, false} {
		n := simnet.New(7)
		nat := n.AddNAT(outside, 30*time.Second)
		_, _, all := clients(t, n, nat, simnet.LinkConfig{Egress: simnet.Faults{Delay: 10 * time.Millisecond}}, 1)
		c := all[0]
		before, _ := c.Link.Stats()
		const ticks = 60
		for range ticks {
			n.Sleep(lastKeepalive / 2)
			if alive {
				c.e.tick()
				n.Poke()
			}
		}
		after, _ := c.Link.Stats()
		if sent := after.Packets - before.Packets; alive && (sent < ticks/2-1 || sent > ticks/2+4) {
			t.Errorf("%d keepalives in %v", sent, ticks*lastKeepalive/2)
		}
		c.post(t, queue.Read, true)
		if n.Sleep(100 * time.Millisecond); alive != (nat.Refused == 0) {
			t.Errorf("keepalives: %v, the translator refused %d packets", alive, nat.Refused)
		}
		if alive {
			c.done(t, true)
		}
	}
}

// A translatedPair is a client behind a translator and a server, with wires of which a test decides what arrives.
type translatedPair struct {
	testing.TB
	e     [2]*Endpoint // of the client and of the server
	wires [2]*wire
	links [2]*Link
	flow  *link.DatagramFlow
	outer netip.AddrPort
	peer  *peer // the client, for the server
	moved int
	now   time.Time
}

func newTranslatedPair(t testing.TB) *translatedPair {
	p := &translatedPair{TB: t, outer: netip.AddrPortFrom(outside, 7000)}
	for i, at := range []netip.AddrPort{private, public} {
		p.e[i] = NewEndpoint(at, psp.Port)
		p.e[i].clock = func() time.Time { return p.now }
		p.wires[i] = &wire{local: netip.AddrPortFrom(at.Addr(), psp.Port)}
		p.links[i] = New(p.wires[i], p.e[i], nil)
		t.Cleanup(func() { p.e[i].leave(p.links[i]) })
	}
	_, y := callThrough(t, p.e[0], p.e[1], public, outside)
	p.peer = y.peer
	report := func(d reason.Detail) {
		if d.Reason == reason.PSPMoved {
			p.moved++
		}
	}
	p.e[1].report.Store(&report)
	var err error
	if p.flow, err = p.links[0].OpenFlow(public, 7); err != nil {
		t.Fatal(err)
	}
	return p
}

// send has the client send a packet, and returns it as it is behind the translator.
func (p *translatedPair) send() link.Rx {
	p.Helper()
	b := noise(100)
	if err := p.links[0].Send(&link.Tx{Size: len(b), Bytes: len(b), Pieces: [][]byte{b}, Flow: &p.flow.Flow}); err != nil {
		p.Fatal(err)
	}
	return p.last(0)
}

// last returns what an end has sent last.
func (p *translatedPair) last(i int) link.Rx {
	p.Helper()
	sent := p.wires[i].sent
	if len(sent) == 0 {
		p.Fatal("nothing was sent")
	}
	rx := sent[len(sent)-1]
	if i == 0 {
		if rx.Src != p.wires[0].local {
			p.Fatalf("the client sends from %v, expected the port where it receives", rx.Src)
		}
		rx.Src = p.outer
	}
	return rx
}

// arrive has a packet arrive at an end from a source, and returns what the end refuses it for.
func (p *translatedPair) arrive(i int, rx link.Rx, src netip.AddrPort) (refused reason.Reason) {
	p.Helper()
	rx.Src = src
	p.wires[i].queue = append(p.wires[i].queue, rx)
	var got link.Rx
	if ok, err := p.links[i].Receive(&got); err != nil || ok && got.Refused.Reason == reason.None && got.Src.Addr() != p.peer.at.Addr() {
		p.Errorf("%+v, %v", got, err)
	}
	return got.Refused.Reason
}

// expect checks where the server sends to, and how many bytes it has sent to an address since the wire was cleared.
func (p *translatedPair) expect(what string, to, elsewhere netip.AddrPort, most int) {
	p.Helper()
	if w := p.peer.way(psp.Port); w.to != to || !w.back {
		p.Errorf("%s: the server sends to %v, expected %v", what, w.to, to)
	}
	n := 0
	for _, rx := range p.wires[1].sent {
		if rx.Dst == elsewhere {
			n += len(rx.Data)
		} else if rx.Dst != to {
			p.Errorf("%s: %d bytes were sent to %v", what, len(rx.Data), rx.Dst)
		}
	}
	if n > most {
		p.Errorf("%s: %d bytes were sent to %v, expected at most %d", what, n, elsewhere, most)
	}
}

// The server follows a client whose translator gives it another port or address, when the client has confirmed it.
func TestServerFollowsAClientThatIsRebound(t *testing.T) {
	p := newTranslatedPair(t)
	if _, err := p.links[1].OpenFlow(p.peer.at, 0); !named(err, reason.PSPNoKey) {
		t.Errorf("before a packet has come: %v", err)
	}
	p.arrive(1, p.send(), p.outer)
	p.expect("first packet", p.outer, netip.AddrPort{}, 0)
	f, err := p.links[1].OpenFlow(p.peer.at, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{"198.51.100.9:7001", "198.51.100.77:7001", "[2001:db8::1]:9"} {
		before := p.outer
		p.outer = netip.MustParseAddrPort(next)
		p.wires[1].sent = nil
		on := p.send()
		if why := p.arrive(1, on, p.outer); why != reason.None {
			t.Errorf("from %v: %v", p.outer, why)
		}
		p.expect("not confirmed", before, p.outer, len(on.Data))
		p.arrive(0, p.last(1), netip.AddrPortFrom(public.Addr(), psp.Port)) // the challenge
		p.arrive(1, p.last(0), p.outer)
		p.expect("confirmed", p.outer, netip.AddrPort{}, 0)
		if err := p.links[1].Send(&link.Tx{Size: 9, Bytes: 9, Pieces: [][]byte{noise(9)}, Flow: &f.Flow}); err != nil || p.last(1).Dst != p.outer {
			t.Errorf("sent to %v, %v", p.last(1).Dst, err)
		}
	}
	if p.moved != 3 {
		t.Errorf("%d changes were reported", p.moved)
	}
}

// An attacker who sees and repeats packets, and forges addresses, does not redirect what the server sends, and gets no more bytes
// than it has sent.
func TestAttackCopiesFromElsewhereRedirectNothing(t *testing.T) {
	p := newTranslatedPair(t)
	evil, server := netip.MustParseAddrPort("192.0.2.66:666"), netip.AddrPortFrom(public.Addr(), psp.Port)
	old, held := p.send(), p.send() // the attacker keeps the second one back
	p.arrive(1, old, p.outer)
	check := func(what string, rx link.Rx, want reason.Reason, most int) {
		t.Helper()
		p.wires[1].sent = nil
		if why := p.arrive(1, rx, evil); why != want {
			t.Errorf("%s: refused for %v, expected %v", what, why, want)
		}
		p.expect(what, p.outer, evil, most)
	}
	check("repeated", old, reason.PSPReplay, 0)
	changed := p.send()
	changed.Data = bytes.Clone(changed.Data)
	changed.Data[60] ^= 1
	check("changed", changed, reason.PSPIntegrity, 0)
	p.arrive(1, p.send(), p.outer)
	check("kept back and overtaken", held, reason.None, 0)

	// A copy arrives before the original.
	first := p.send()
	check("copy", first, reason.None, len(first.Data))
	challenged := p.last(1)
	if why := p.arrive(1, first, p.outer); why != reason.PSPReplay {
		t.Errorf("the original: %v", why)
	}
	// The attacker passes the challenge on. The client's answer comes from where the client is.
	p.arrive(0, challenged, server)
	answer := p.last(0)
	p.wires[1].sent = nil
	p.arrive(1, answer, p.outer)
	p.expect("answer from the client", p.outer, evil, 0)
	check("repeated answer", answer, reason.PSPReplay, 0)
	// Answers with other values prove nothing.
	for value := range uint64(3) {
		p.links[0].control(p.e[0].peers[public], server, response, value)
		check("answer that proves nothing", p.last(0), reason.None, controlLen+psp.Overhead)
	}
	// Many copies.
	p.wires[1].sent = nil
	sent := 0
	for range 200 {
		p.now = p.now.Add(time.Millisecond)
		rx := p.send()
		sent += len(rx.Data)
		p.arrive(1, rx, evil)
	}
	p.expect("copies of many packets", p.outer, evil, sent/20)
	p.arrive(1, p.send(), p.outer)
	if p.expect("at last", p.outer, evil, sent/20); p.moved != 0 {
		t.Errorf("%d changes", p.moved)
	}
}

// Keepalives are sent by the end behind the translator only, while it sends nothing else: soon after the last packet, and
// then rarely.
func TestKeepalivesAreSentWhileIdle(t *testing.T) {
	p := newTranslatedPair(t)
	run := func(i int, d time.Duration, each func()) (n int) {
		t.Helper()
		for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(firstKeepalive / 5) {
			each()
			p.wires[i].sent = nil
			p.e[i].tick()
			var rx link.Rx
			if ok, err := p.links[i].Receive(&rx); ok || err != nil {
				t.Fatal(ok, err)
			}
			n += len(p.wires[i].sent)
		}
		return n
	}
	expect := func(when string, found, want int) {
		t.Helper()
		if found != want {
			t.Errorf("%s: %d keepalives, expected %d", when, found, want)
		}
	}
	nothing := func() {}
	expect("after the meeting", run(0, time.Millisecond, nothing), 1)
	if why := p.arrive(1, p.last(0), p.outer); why != reason.None {
		t.Errorf("the keepalive is refused: %v", why)
	}
	p.expect("keepalive", p.outer, netip.AddrPort{}, 0)
	expect("busy", run(0, 10*time.Second, func() { p.send() }), 0)
	expect("soon after", run(0, 2*firstKeepalive, nothing), 1)
	expect("idle", run(0, 10*time.Minute, nothing), 5+28)
	p.send()
	expect("soon after the next packet", run(0, 2*firstKeepalive, nothing), 1)
	expect("the server", run(1, time.Minute, nothing), 0)
	p.e[0].end(p.e[0].peers[public].sessions[0])
	expect("the connection of the meeting has ended", run(0, time.Minute, nothing), 0)
}

// A client that calls again is the same peer, also from another address. Others are not, and one address has places for so
// many.
func TestCallersBehindATranslator(t *testing.T) {
	s := NewEndpoint(public, psp.Port)
	c := NewEndpoint(private, psp.Port)
	_, y := callThrough(t, c, s, public, outside)
	at := y.peer.at
	s.end(y)
	if err := s.errBehind(private); !named(err, reason.PSPBehind) {
		t.Errorf("the address that the client says it has: %v", err)
	}
	if _, again := callThrough(t, c, s, public, netip.MustParseAddr("198.51.100.10")); again.peer != y.peer || again.peer.at != at {
		t.Errorf("%v calls again, and is %v", at, again.peer.at)
	}
	other := netip.MustParseAddr("198.51.100.11")
	direct, err := s.caller(other, &offer{self: other, device: 4791})
	if err != nil || direct.at != netip.AddrPortFrom(other, 4791) || direct.behind != nil {
		t.Errorf("a peer without a translator: %+v, %v", direct, err)
	}
	for i := range maxHostPeers - 1 {
		p, err := s.caller(other, &offer{self: private.Addr(), device: 4791, name: pairName{0: byte(i), 1: 1}})
		if err != nil {
			t.Fatal(err)
		}
		s.begin(p, false, quiet(false, ""))
	}
	s.begin(direct, false, quiet(false, ""))
	if _, err := s.caller(other, &offer{self: private.Addr(), device: 4791, name: pairName{1: 2}}); !named(err, reason.PSPPeers) {
		t.Errorf("one more: %v", err)
	}
	if n := len(s.named); n != maxHostPeers {
		t.Errorf("%d peers behind translators", n)
	}
	p := s.named[pairName{0: 3, 1: 1}]
	s.end(p.sessions[0])
	if _, err := s.caller(other, &offer{self: private.Addr(), device: 4791, name: pairName{1: 2}}); err != nil || s.named[p.behind.name] != nil || s.peers[p.at] != nil {
		t.Errorf("a peer that is gone keeps its place: %v", err)
	}
	if _, err := s.peer(p.at); !named(err, reason.PSPBehind) {
		t.Errorf("a peer that is gone: %v", err)
	}
	if _, err := s.peer(netip.MustParseAddrPort("[2001:20::5]:4791")); !named(err, reason.PSPBehind) {
		t.Errorf("a peer that never was: %v", err)
	}
}

// Both ends learn what the translator changes. Without one nothing is translated.
func TestTranslation(t *testing.T) {
	inner := netip.MustParseAddrPort("10.0.0.5:4791")
	s, c := NewEndpoint(inner, psp.Port), NewEndpoint(private, psp.Port)
	x, y := callThrough(t, c, s, public, outside) // the server is behind one as well
	if got := s.Translation(y.peer.at); got.Own != public.Addr() || got.Outer.Addr() != outside {
		t.Errorf("for the server: %+v", got)
	}
	if got := c.Translation(public); got.Own != outside || got.Outer.IsValid() || x.peer.at != public {
		t.Errorf("for the client: %+v", got)
	}
	p := newPair(t)
	if got := p.e[0].Translation(addrs[1]); got != (link.Translation{}) {
		t.Errorf("without a translator: %+v", got)
	}
}

// A server behind a translator with open ports calls a client that has called it. It is the same peer for the client, under the
// address that the client has called, or what it sends would no longer belong to the client's connections.
func TestServerBehindATranslatorCallsItsClient(t *testing.T) {
	at := netip.AddrPortFrom(outside, public.Port())
	c, s := NewEndpoint(public, psp.Port), NewEndpoint(private, psp.Port)
	x, _ := callThrough(t, c, s, at, public.Addr())
	_, y := callThrough(t, s, c, public, outside)
	if y.peer != x.peer || y.in[0].from != outside {
		t.Errorf("called %v, called by %v: packets come from %v", x.peer.at, y.peer.at, y.in[0].from)
	}
	// Another device behind the translator does not know the name.
	other := NewEndpoint(private, psp.Port)
	if _, z := callThrough(t, other, c, public, outside); z.peer == x.peer || !isAlias(z.peer.at.Addr()) {
		t.Errorf("another device is %v", z.peer.at)
	}
}
