package sealed

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// join makes two endpoints known to each other, as a meeting does. A renewed key reaches the other at once while
// told says so.
func join(t testing.TB, a, b *Endpoint, at, bt netip.AddrPort, told func() bool) (x, y *session) {
	t.Helper()
	side := func(e *Endpoint, at netip.AddrPort, dialled bool, other func() (*Endpoint, *session)) *session {
		p, err := e.peer(at)
		if err != nil {
			t.Fatal(err)
		}
		return e.begin(p, dialled, line{dialled: dialled, hangUp: func() {}, tell: func(b []byte) {
			o, err := parseOffer(b)
			if err != nil {
				t.Error(err)
			}
			if told() {
				e, s := other()
				_ = e.take(s, &o)
			}
		}})
	}
	x = side(a, bt, true, func() (*Endpoint, *session) { return b, y })
	y = side(b, at, false, func() (*Endpoint, *session) { return a, x })
	a.issue(x)
	b.issue(y)
	return x, y
}

func always() bool { return true }

// A wire is a link on which a test sees what is sent, and of which it decides what arrives.
type wire struct {
	link.Datagrams
	local netip.AddrPort
	sent  []link.Rx // batches, as they arrive at the peer
	queue []link.Rx // what arrives here
	flow  link.DatagramFlow
	port  uint16 // of flows; 50000 if it is 0
	full  bool   // opens no flow
}

func (w *wire) Local() netip.AddrPort { return w.local }

func (w *wire) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, Returner: w}
}

func (w *wire) OpenReturn(dst netip.AddrPort) (*link.DatagramFlow, error) {
	w.flow.Src, w.flow.Dst = w.local, dst
	return &w.flow, nil
}

func (w *wire) Wake() {}

func (w *wire) OpenFlow(dst netip.AddrPort, _ uint32) (*link.DatagramFlow, error) {
	if w.full {
		return nil, syscall.EMFILE
	}
	w.flow.Src, w.flow.Dst = netip.AddrPortFrom(w.local.Addr(), cmp.Or(w.port, 50000)), dst
	return &w.flow, nil
}

func (w *wire) CloseFlow(*link.Flow) {}

func (w *wire) Send(tx *link.Tx) error {
	rx := link.Rx{Size: tx.Size, Src: w.flow.Src, Dst: w.flow.Dst}
	for _, b := range tx.Pieces {
		rx.Data = append(rx.Data, b...)
	}
	if len(rx.Data) != tx.Bytes {
		return errors.New("wrong length")
	}
	w.sent = append(w.sent, rx)
	return nil
}

func (w *wire) Receive(rx *link.Rx) (bool, error) {
	if len(w.queue) == 0 {
		return false, nil
	}
	*rx = w.queue[0]
	rx.Data = bytes.Clone(rx.Data)
	w.queue = w.queue[1:]
	return true, nil
}

// A pair is two encrypted links, of which the first sends and the other receives.
type pair struct {
	testing.TB
	e     [2]*Endpoint
	s     [2]*session
	wires [2]*wire
	links [2]*Link
	flow  *link.DatagramFlow
	told  bool
}

var addrs = [2]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")}

func newPair(t testing.TB) *pair {
	p := &pair{TB: t, told: true}
	for i := range p.e {
		p.e[i] = NewEndpoint(addrs[i], uint16(1000+i))
		p.wires[i] = &wire{local: netip.AddrPortFrom(addrs[i].Addr(), uint16(1000+i))}
		p.links[i] = New(p.wires[i], p.e[i], nil)
	}
	p.s[0], p.s[1] = join(t, p.e[0], p.e[1], addrs[0], addrs[1], func() bool { return p.told })
	var err error
	if p.flow, err = p.links[0].OpenFlow(addrs[1], 7); err != nil {
		t.Fatal(err)
	}
	return p
}

// send sends packets as one batch and returns what is on the wire.
func (p *pair) send(size int, pieces ...[]byte) link.Rx {
	p.Helper()
	tx := link.Tx{Size: size, Pieces: pieces, Flow: &p.flow.Flow}
	for _, b := range pieces {
		tx.Bytes += len(b)
	}
	if err := p.links[0].Send(&tx); err != nil {
		p.Fatal(err)
	}
	return p.wires[0].sent[len(p.wires[0].sent)-1]
}

// arrive has a batch arrive, and returns what the receiver makes of it.
func (p *pair) arrive(rx link.Rx) (data []byte, refused []reason.Reason) {
	p.Helper()
	p.wires[1].queue = append(p.wires[1].queue, rx)
	for {
		var got link.Rx
		ok, err := p.links[1].Receive(&got)
		if err != nil {
			p.Fatal(err)
		}
		if !ok {
			return data, refused
		}
		if got.Refused.Reason != reason.None {
			refused = append(refused, got.Refused.Reason)
			if len(got.Data) != 0 {
				p.Errorf("%v comes with %d bytes", got.Refused, len(got.Data))
			}
			continue
		}
		if got.Src != p.flow.Src || got.Dst != p.flow.Dst {
			p.Errorf("expected %v to %v, found %v to %v", p.flow.Src, p.flow.Dst, got.Src, got.Dst)
		}
		data = append(data, got.Data...)
	}
}

func (p *pair) expect(rx link.Rx, want []byte, refused ...reason.Reason) {
	p.Helper()
	data, why := p.arrive(rx)
	if !bytes.Equal(data, want) {
		p.Errorf("expected %d bytes, found %d", len(want), len(data))
	}
	if len(why) != len(refused) {
		p.Errorf("expected refusals %v, found %v", refused, why)
		return
	}
	for i := range why {
		if why[i] != refused[i] {
			p.Errorf("expected refusals %v, found %v", refused, why)
		}
	}
}

// noise returns bytes that differ from packet to packet.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Batches arrive as they were sent, however their bytes lie, and nothing of them is in the clear.
func TestBatchesArriveAndNothingIsInTheClear(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct{ bytes, size, cut int }{
		{1, 1, 0}, {16, 16, 3}, {17, 100, 5}, {4124, 4124, 60}, {3 * 1044, 1044, 1000}, {57000, 1044, 30000}, {14 * 4124, 4124, 9000}, {64 * 20, 20, 21},
	} {
		b := noise(c.bytes)
		on := p.send(c.size, b[:c.cut], b[c.cut:])
		if n := (c.bytes + c.size - 1) / c.size; len(on.Data) != c.bytes+n*Overhead || on.Size != c.size+Overhead {
			t.Errorf("%+v: %d bytes in packets of %d are on the wire", c, len(on.Data), on.Size)
		}
		ports := []byte{byte(p.flow.Src.Port() >> 8), byte(p.flow.Src.Port()), 4791 >> 8, 4791 & 0xff}
		if c.bytes >= 16 && bytes.Contains(on.Data, b[:16]) || bytes.Contains(on.Data, ports) {
			t.Errorf("%+v: the packet or its ports are in the clear", c)
		}
		p.expect(on, b)
	}
	if p.wires[0].sent[0].Dst != netip.AddrPortFrom(addrs[1].Addr(), 1001) {
		t.Errorf("packets go to %v, expected the port that the peer has told", p.wires[0].sent[0].Dst)
	}
}

// No two packets have one SPI and IV.
func TestIVsAreNeverUsedTwice(t *testing.T) {
	p := newPair(t)
	seen := map[[12]byte]bool{}
	for i := range 300 {
		on := p.send(20, noise(20*(1+i%7)))
		for b := on.Data; len(b) > 0; b = b[20+Overhead:] {
			n := [12]byte(b[4:16])
			if seen[n] {
				t.Fatalf("nonce %x was used twice", n)
			}
			seen[n] = true
		}
		switch i % 50 {
		case 20:
			p.e[1].Rotate()
		case 40: // the peer says the same again
			p.e[1].offer(p.s[1])
		}
	}
}

// Whatever an attacker on the path does to packets, they are refused by name and the next one arrives.
func TestAttackChangedPacketsAreRefused(t *testing.T) {
	p := newPair(t)
	body := noise(40)
	on := p.send(40, body)
	n := len(on.Data)
	for bit := range 8 * n {
		b := on
		b.Data = bytes.Clone(on.Data)
		b.Data[bit/8] ^= 1 << (bit % 8)
		if data, why := p.arrive(b); len(data) != 0 || len(why) != 1 {
			t.Fatalf("bit %d: %d bytes, %v", bit, len(data), why)
		}
	}
	for cut := range n {
		b := on
		b.Data, b.Size = on.Data[:cut], max(cut, 1)
		if data, _ := p.arrive(b); len(data) != 0 {
			t.Fatalf("%d bytes of a packet: %d are taken", cut, len(data))
		}
	}
	long := on
	long.Data, long.Size = append(bytes.Clone(on.Data), 0), n+1
	p.expect(long, nil, reason.PSPIntegrity)
	far := on
	far.Src = netip.MustParseAddrPort("10.0.0.3:50000")
	p.expect(far, nil, reason.PSPSource)
	p.expect(on, body)
	p.expect(on, nil, reason.PSPReplay)
	p.expect(p.send(40, body), body)
}

// Packets of others make the receiver hold nothing, whichever SPIs they have.
func TestAttackStrangersLeaveNoState(t *testing.T) {
	p := newPair(t)
	body := noise(40)
	on := p.send(40, body)
	before := len(p.e[1].inbound)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := on
		b.Data = bytes.Clone(on.Data)
		switch r.IntN(3) {
		case 0:
			binary.BigEndian.PutUint32(b.Data[4:], r.Uint32()|2)
		case 1:
			for i := range b.Data {
				b.Data[i] = byte(r.Uint32())
			}
		case 2: // an own packet in place of the peer's
			binary.BigEndian.PutUint64(b.Data[8:], r.Uint64())
		}
		if data, why := p.arrive(b); len(data) != 0 || len(why) != 1 {
			t.Fatalf("%d bytes, %v", len(data), why)
		}
	}
	if n := len(p.e[1].inbound); n != before {
		t.Errorf("%d keys, expected %d", n, before)
	}
	p.expect(on, body)
}

// A packet that its sender marks to be dropped after sampling is dropped. One that is to be sampled arrives as others do.
func TestMarkedPackets(t *testing.T) {
	p := newPair(t)
	body := noise(40)
	for _, c := range []struct {
		sample, drop bool
		want         []byte
		refused      []reason.Reason
	}{
		{false, true, nil, []reason.Reason{reason.PSPPacket}},
		{true, true, nil, []reason.Reason{reason.PSPPacket}},
		{true, false, body, nil},
	} {
		on := p.send(40, body)
		h := psp.Header{Next: psp.NextUDP, IV: binary.BigEndian.Uint64(on.Data[8:]), Sample: c.sample, Drop: c.drop}
		putUDP(on.Data[psp.HeaderLen:], p.flow.Src.Port(), p.flow.Dst.Port(), udpLen+len(body))
		copy(on.Data[psp.HeaderLen+udpLen:], body)
		if err := p.s[0].out.key.Seal(on.Data, &h); err != nil {
			t.Fatal(err)
		}
		p.expect(on, c.want, c.refused...)
	}
}

// Packets that were recorded before a device was opened again are refused, although their SPI is one of the device's again.
func TestAttackPacketsForAnEarlierDevice(t *testing.T) {
	p := newPair(t)
	body := noise(40)
	recorded := []link.Rx{p.send(40, body), p.send(40, body)}
	p.expect(recorded[0], body)
	p.e[0].end(p.s[0])
	p.e[1] = NewEndpoint(addrs[1], 1001)
	p.links[1] = New(p.wires[1], p.e[1], nil)
	p.s[0], p.s[1] = join(t, p.e[0], p.e[1], addrs[0], addrs[1], always)
	now := p.send(40, body)
	if !bytes.Equal(now.Data[4:8], recorded[0].Data[4:8]) {
		t.Fatalf("SPI %x, expected %x again", now.Data[4:8], recorded[0].Data[4:8])
	}
	for _, on := range recorded {
		p.expect(on, nil, reason.PSPIntegrity)
	}
	p.expect(now, body)
}

// Of a batch with bad packets the others arrive.
func TestBatchWithBadPackets(t *testing.T) {
	p := newPair(t)
	body := noise(100)
	on := p.send(20, body)
	for _, i := range []int{1, 3} {
		on.Data[i*(20+Overhead)+30] ^= 1
	}
	want := append(append(bytes.Clone(body[:20]), body[40:60]...), body[80:]...)
	p.expect(on, want, reason.PSPIntegrity, reason.PSPIntegrity)
	// All of it comes again.
	p.expect(on, nil, reason.PSPReplay, reason.PSPIntegrity, reason.PSPReplay, reason.PSPIntegrity, reason.PSPReplay)
}

// Packets that overtake each other arrive. Very late ones do not.
func TestLatePackets(t *testing.T) {
	p := newPair(t)
	var all []link.Rx
	for range 3000 {
		all = append(all, p.send(20, noise(20)))
	}
	p.expect(all[2000], noise(20))
	p.expect(all[1000], noise(20))
	p.expect(all[1000], nil, reason.PSPReplay)
	p.expect(all[2999], noise(20))
	p.expect(all[10], nil, reason.PSPReplay)
	p.expect(all[1500], noise(20))
}

// A key is valid until the second rotation, and the sender has the new one at once.
func TestRotation(t *testing.T) {
	p := newPair(t)
	old, older := p.send(20, noise(20)), p.send(20, noise(20))
	spi := p.links[1].last
	p.e[1].Rotate()
	now := p.send(20, noise(20))
	if bytes.Equal(now.Data[4:8], old.Data[4:8]) || now.Data[4]>>7 == old.Data[4]>>7 {
		t.Errorf("expected an SPI of the other master key, found %x after %x", now.Data[4:8], old.Data[4:8])
	}
	p.expect(now, noise(20))
	p.expect(old, noise(20))
	p.e[1].Rotate()
	p.expect(older, nil, reason.PSPSPI)
	p.expect(p.send(20, noise(20)), noise(20))
	if n := len(p.e[1].inbound); n != 2 || spi == p.links[1].last {
		t.Errorf("%d keys, expected 2", n)
	}
}

// No SPI belongs to two keys of one master key: when a master key has no SPI left, it is replaced. The peer always has a key
// that is valid, and callers that are not admitted get theirs.
func TestMasterKeyWithoutSPIsIsReplaced(t *testing.T) {
	p := newPair(t)
	e := p.e[1]
	e.spis = 5
	type spiOf struct {
		master [psp.MasterLen]byte
		spi    uint32
	}
	seen := map[spiOf]bool{{e.masters[0], p.s[1].offer.spi}: true}
	masters := map[[psp.MasterLen]byte]bool{}
	caller := func() *session { return e.promise(netip.MustParseAddr("10.0.0.77"), quiet(false, "")) }
	issue := []func() *session{
		func() *session { e.issue(p.s[1]); return p.s[1] },
		func() *session { e.renew(p.s[1].in[0]); return p.s[1] },
		func() *session { s := caller(); e.revoke(s); return s },
		caller,
	}
	late := caller()
	seen[spiOf{e.masters[0], late.offer.spi}] = true
	for i := range 60 {
		old := p.send(20, noise(20)) // with the key from before
		s := issue[i%len(issue)]()
		master := e.masters[s.offer.spi/psp.Phase]
		if now := (spiOf{master, s.offer.spi}); seen[now] || s.offer.spi%psp.Phase == 0 || s.offer.spi%psp.Phase > e.spis {
			t.Fatalf("key %d: SPI %#x of master key %d again, or out of range", i, s.offer.spi, len(masters))
		} else {
			seen[now], masters[master] = true, true
		}
		if in := p.s[1].in[0]; e.inbound[in.key.SPI()] != in {
			t.Fatalf("key %d: the peer's newest key is not valid", i)
		}
		p.expect(old, noise(20))
		p.expect(p.send(20, noise(20)), noise(20))
	}
	if len(masters) < 60/5 {
		t.Errorf("%d master keys for 60 keys, of which each has %d", len(masters), e.spis)
	}
	// A caller whose key was of a master key that is gone gets another one when it is admitted.
	if late.in[0] != nil {
		t.Error("a key outlived its master key")
	}
	if err := e.admit(late, &offer{device: 4791, port: 1}, false); err != nil || late.in[0] == nil || e.inbound[late.offer.spi] != late.in[0] {
		t.Errorf("a caller that was admitted late has no key: %v", err)
	}
	if n := len(e.inbound); n > 2*5+2 {
		t.Errorf("%d keys are kept", n)
	}
}

// A key that was used for many bytes is replaced. A sender whose peer does not replace it stops in the end.
func TestKeysAreRenewedByBytes(t *testing.T) {
	p := newPair(t)
	p.e[0].limit, p.e[1].limit = 1000, 1000
	spis := map[uint32]bool{}
	for range 100 {
		on := p.send(100, noise(100))
		spis[binary.BigEndian.Uint32(on.Data[4:])] = true
		p.expect(on, noise(100))
	}
	if len(spis) < 8 || len(spis) > 11 {
		t.Errorf("%d keys for 100 packets, expected about 10", len(spis))
	}
	p.told = false
	sent := 0
	for ; sent < 100; sent++ {
		if err := p.links[0].Send(&link.Tx{Size: 100, Bytes: 100, Pieces: [][]byte{noise(100)}, Flow: &p.flow.Flow}); err != nil {
			if !named(err, reason.PSPNoKey) {
				t.Error(err)
			}
			break
		}
	}
	if sent < 30 || sent > 50 {
		t.Errorf("%d packets with a key that is not renewed, expected four times 10", sent)
	}
}

func named(err error, r reason.Reason) bool {
	var e *reason.Error
	return errors.As(err, &e) && e.Detail.Reason == r
}

// quiet returns a line on which nothing is said.
func quiet(dialled bool, identity string) line {
	return line{dialled: dialled, identity: identity, tell: func([]byte) {}, hangUp: func() {}}
}

// A session that is open is replaced only by one in which the peer has proved its address, or in which it has the same
// public key. When the peer has proved its address, only sessions in which it has count, whether or not they are open.
func TestWhichSessionCounts(t *testing.T) {
	e := NewEndpoint(addrs[0], 1000)
	p, err := e.peer(addrs[1])
	if err != nil {
		t.Fatal(err)
	}
	var all []*session
	add := func(dialled bool, identity string) *session {
		l := quiet(dialled, identity)
		var s *session
		l.hangUp = func() { e.end(s) }
		s = e.begin(p, dialled, l)
		e.issue(s)
		all = append(all, s)
		if err := e.take(s, &offer{spi: uint32(len(all)), port: 1, device: 1}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(want *session) {
		t.Helper()
		if p.out.Load() != want.out {
			t.Errorf("the key of session %d is used", p.out.Load().key.SPI())
		}
	}
	first := add(false, "x")
	check(first)
	if !p.met(false) || p.met(true) {
		t.Error("a caller counts as one that has proved its address")
	}
	nobody := add(false, "")
	check(first)
	e.end(nobody)
	second := add(false, "y")
	check(first)
	again := add(false, "x")
	check(again)
	if first.live || !second.live {
		t.Error("a caller that calls again takes its own place only")
	}
	e.end(again)
	check(second)
	e.end(second)
	check(second)
	third := add(false, "y")
	check(third)
	proved := add(true, "z")
	check(proved)
	if !p.met(true) || !third.live {
		t.Error("the peer has proved its address")
	}
	later := add(true, "z")
	check(later)
	if proved.live {
		t.Error("the earlier connection is open")
	}
	if err := e.take(later, &offer{spi: 77, port: 1, device: 1}); err != nil || !later.live {
		t.Error("another key ends the connection", err)
	}
	e.end(later)
	check(later)
	if p.met(false) {
		t.Error("a caller is enough, although the peer has proved its address before")
	}
	for range 20 {
		s := add(false, "y")
		check(later)
		e.end(s)
		check(later)
	}
	if later.in[0] == nil || later.in[0].revoked.Load() {
		t.Error("callers ended the key of the peer")
	}
	e.end(third)
	back := add(true, "z")
	check(back)
	if n := len(p.sessions); n > 3 {
		t.Errorf("%d sessions are kept", n)
	}
	if n := len(e.inbound); n > 3 {
		t.Errorf("%d keys are kept", n)
	}
}

// The places for peers are bounded. Those that are gone make room for others.
func TestPeersAreBounded(t *testing.T) {
	e := NewEndpoint(addrs[0], 1000)
	var sessions []*session
	for i := range maxPeers {
		p, err := e.peer(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 4791))
		if err != nil {
			t.Fatal(err)
		}
		s := e.begin(p, false, quiet(false, ""))
		e.issue(s)
		sessions = append(sessions, s)
	}
	if _, err := e.peer(addrs[0]); !named(err, reason.PSPPeers) {
		t.Errorf("one peer more: %v", err)
	}
	e.end(sessions[5])
	if _, err := e.peer(addrs[0]); err != nil {
		t.Error(err)
	}
	if !sessions[5].peer.gone.Load() || len(e.inbound) != maxPeers-1 {
		t.Errorf("%d keys", len(e.inbound))
	}
	// One host cannot take the places of all others, whichever ports it says it has.
	host := netip.MustParseAddr("10.9.9.9")
	for i := range maxHostPeers {
		e.remove(sessions[30+i].peer)
		p, err := e.peer(netip.AddrPortFrom(host, uint16(1+i)))
		if err != nil {
			t.Fatal(err)
		}
		e.begin(p, false, quiet(false, ""))
	}
	if _, err := e.peer(netip.AddrPortFrom(host, 999)); !named(err, reason.PSPPeers) {
		t.Errorf("one peer more of a host: %v", err)
	}
	e.remove(sessions[20].peer)
	if _, err := e.peer(netip.MustParseAddrPort("10.9.9.10:4791")); err != nil {
		t.Errorf("a peer of another host: %v", err)
	}
	e.end(e.peers[netip.AddrPortFrom(host, 5)].sessions[0])
	if _, err := e.peer(netip.AddrPortFrom(host, 999)); err != nil || e.peers[netip.AddrPortFrom(host, 5)] != nil {
		t.Errorf("a peer of the host is gone, and the next one: %v", err)
	}
	p := sessions[0].peer
	for range maxSessions - 1 {
		e.begin(p, false, quiet(false, ""))
	}
	if err := p.mayBegin(&session{}); !named(err, reason.PSPPeers) {
		t.Errorf("one session more: %v", err)
	}
	// A host that was cut off calls again when all of its connections have ended.
	for _, s := range p.sessions {
		e.end(s)
	}
	if err := p.mayBegin(&session{}); err != nil {
		t.Errorf("all sessions have ended: %v", err)
	}
}

// There is no key of two or more, so groups are refused.
func TestGroupsAreRefused(t *testing.T) {
	p := newPair(t)
	group := netip.MustParseAddr("239.1.1.1")
	_, err := p.links[0].OpenFlow(netip.AddrPortFrom(group, 4791), 1)
	if err := errors.Join(err, p.links[0].Join(group)); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := p.links[0].OpenFlow(netip.MustParseAddrPort("10.0.0.9:4791"), 1); !named(err, reason.PSPNoKey) {
		t.Errorf("a flow to a stranger: %v", err)
	}
}

// A peer's device that was opened again, with another port, gets packets there.
func TestFlowFollowsThePeersPort(t *testing.T) {
	p := newPair(t)
	p.e[0].end(p.s[0])
	p.e[1] = NewEndpoint(addrs[1], 1777)
	p.wires[1] = &wire{local: netip.AddrPortFrom(addrs[1].Addr(), 1777)}
	p.links[1] = New(p.wires[1], p.e[1], nil)
	join(t, p.e[0], p.e[1], addrs[0], addrs[1], always)
	on := p.send(20, noise(20))
	if on.Dst.Port() != 1777 {
		t.Errorf("packets go to %v", on.Dst)
	}
	p.expect(on, noise(20))
}

// A flow whose peer is forgotten, or cannot be reached at its new port, fails to send until the peer is back.
func TestFlowOutlivesItsPeer(t *testing.T) {
	p := newPair(t)
	fails := func(when string) {
		t.Helper()
		for range 2 {
			if err := p.links[0].Send(&link.Tx{Size: 20, Bytes: 20, Pieces: [][]byte{noise(20)}, Flow: &p.flow.Flow}); err == nil {
				t.Errorf("%s: a packet was sent to %v", when, p.wires[0].sent[len(p.wires[0].sent)-1].Dst)
			}
		}
	}
	again := func() {
		p.e[1] = NewEndpoint(addrs[1], p.e[1].port+1)
		p.wires[1] = &wire{local: netip.AddrPortFrom(addrs[1].Addr(), p.e[1].port)}
		p.links[1] = New(p.wires[1], p.e[1], nil)
		p.s[0], p.s[1] = join(t, p.e[0], p.e[1], addrs[0], addrs[1], always)
	}
	p.e[0].remove(p.s[0].peer)
	fails("the peer is forgotten")
	again()
	p.expect(p.send(20, noise(20)), noise(20))
	p.e[0].end(p.s[0])
	p.wires[0].full = true
	again()
	fails("there is no flow to the peer's new port")
	p.wires[0].full = false
	p.expect(p.send(20, noise(20)), noise(20))
}

func FuzzOffer(f *testing.F) {
	p := newPair(f)
	var b [offerLen]byte
	p.s[0].offer.put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOffer(b)
		if err != nil {
			if !named(err, reason.PSPOffer) {
				t.Fatal(err)
			}
			return
		}
		var again [offerLen]byte
		o.put(again[:])
		if x, err := parseOffer(again[:]); err != nil || x != o {
			t.Fatalf("expected %+v, found %+v, %v", o, x, err)
		}
		if err := NewEndpoint(addrs[1], 1).take(&session{peer: &peer{}}, &o); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReceive(f *testing.F) {
	p := newPair(f)
	f.Add(p.send(20, noise(60)).Data, 60)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if len(b) > 1<<16 || len(b) == 0 {
			return
		}
		p.TB = t
		p.arrive(link.Rx{Data: b, Size: size, Src: p.wires[0].flow.Src, Dst: p.wires[0].flow.Dst})
	})
}

// A sink is a wire that keeps nothing, and an again one on which the same batch arrives always.
type sink struct{ *wire }

func (sink) Send(*link.Tx) error { return nil }

type again struct {
	*wire
	rx link.Rx
}

func (a *again) Receive(rx *link.Rx) (bool, error) {
	*rx = a.rx
	return true, nil
}

func BenchmarkLink(b *testing.B) {
	for _, c := range []struct {
		name        string
		bytes, size int
	}{{"14 packets of 4 KiB", 14 * 4124, 4124}, {"1 packet of 8 B", 40, 40}} {
		body := noise(c.bytes)
		b.Run("seal "+c.name, func(b *testing.B) {
			p := newPair(b)
			b.SetBytes(int64(c.bytes))
			b.ReportAllocs()
			tx := link.Tx{Size: c.size, Bytes: c.bytes, Pieces: [][]byte{body}, Flow: &p.flow.Flow}
			p.links[0].over = sink{p.wires[0]}
			for b.Loop() {
				if err := p.links[0].Send(&tx); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("open "+c.name, func(b *testing.B) {
			p := newPair(b)
			b.SetBytes(int64(c.bytes))
			b.ReportAllocs()
			on := p.send(c.size, body)
			p.links[1].over = &again{wire: p.wires[1], rx: on}
			var rx link.Rx
			for b.Loop() {
				p.s[1].in[0].window = psp.Window{} // the same packets again
				if ok, err := p.links[1].Receive(&rx); !ok || err != nil || len(rx.Data) != c.bytes {
					b.Fatal(ok, err, rx.Refused)
				}
			}
		})
	}
}
