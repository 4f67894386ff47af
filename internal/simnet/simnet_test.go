package simnet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/wire/ib"
)

var (
	addrA = netip.MustParseAddrPort("10.0.0.1:4791")
	addrB = netip.MustParseAddrPort("10.0.0.2:4791")
)

// A pair is two links with packets numbered in their payload.
type pair struct {
	t    testing.TB
	net  *Network
	a, b *Link
	flow *link.DatagramFlow
	rx   link.Rx
}

func newPair(t testing.TB, seed uint64, a, b LinkConfig) *pair {
	p := &pair{t: t, net: New(seed)}
	p.a, p.b = p.net.Attach(addrA, a), p.net.Attach(addrB, b)
	var err error
	if p.flow, err = p.a.OpenFlow(addrB, 0x12345); err != nil {
		t.Fatal(err)
	}
	return p
}

// datagram makes a packet with a correct ICRC whose payload begins with i.
func datagram(f *link.DatagramFlow, id uint16, i uint32, payload int) []byte {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UCSendOnly, PKey: 0xffff, DestQPN: 7}, Payload: make([]byte, payload)}
	binary.BigEndian.PutUint32(p.Payload, i)
	b := append(p.Append(nil), 0, 0, 0, 0)
	h := ib.NewPseudoHeader(f.Src, f.Dst)
	ib.PutICRC(b[len(b)-4:], h.Sum(id, b))
	return b
}

// send sends count packets from number first, one per batch.
func (p *pair) send(first, count, payload int, tos uint8) {
	p.t.Helper()
	for i := range count {
		b := datagram(p.flow, 0, uint32(first+i), payload)
		tx := link.Tx{Flow: &p.flow.Flow, Pieces: [][]byte{b}, Bytes: len(b), Size: len(b), TOS: tos, HopLimit: 64}
		if err := p.a.Send(&tx); err != nil {
			p.t.Fatal(err)
		}
	}
}

// received empties the inbox of l and returns the numbers of the packets.
func (p *pair) received(l *Link) (numbers []int) {
	p.t.Helper()
	for {
		ok, err := l.Receive(&p.rx)
		if err != nil {
			p.t.Fatal(err)
		}
		if !ok {
			return numbers
		}
		for b := p.rx.Data; len(b) > 0; b = b[min(p.rx.Size, len(b)):] {
			numbers = append(numbers, int(binary.BigEndian.Uint32(b[ib.BTHLen:])))
		}
	}
}

func (p *pair) drain() {
	for p.net.Step() {
	}
}

func count(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

func TestNetworkWithoutFaultsDeliversInOrder(t *testing.T) {
	p := newPair(t, 1, LinkConfig{}, LinkConfig{})
	p.send(0, 100, 64, 2)
	if got := p.received(p.b); got != nil {
		t.Fatalf("received %v before any time passed", got)
	}
	p.drain()
	if got := p.received(p.b); !slices.Equal(got, count(100)) {
		t.Fatalf("received %v", got)
	}
	if p.net.Clock() != 2*defaultDelay {
		t.Fatalf("took %v, two links of %v", p.net.Clock(), defaultDelay)
	}
	if p.rx.Src != p.flow.Src || p.rx.Dst != addrB || p.rx.TOS != 2 || p.rx.HopLimit != 64 {
		t.Fatalf("headers %v %v %d %d", p.rx.Src, p.rx.Dst, p.rx.TOS, p.rx.HopLimit)
	}
}

func TestNetworkEqualSeedsGiveEqualHashes(t *testing.T) {
	run := func(seed uint64) uint64 {
		f := Faults{Loss: 0.1, Duplicate: 0.1, Corrupt: 0.1, Reorder: 0.2, Delay: time.Millisecond, Jitter: time.Millisecond}
		p := newPair(t, seed, LinkConfig{Egress: f}, LinkConfig{Ingress: f})
		p.send(0, 500, 100, 0)
		p.drain()
		return p.net.Hash()
	}
	if run(5) != run(5) {
		t.Fatal("equal seeds, different hashes")
	}
	if run(5) == run(6) {
		t.Fatal("different seeds, equal hashes")
	}
}

func TestNetworkHashCoversBytes(t *testing.T) {
	run := func(last int) uint64 {
		p := newPair(t, 5, LinkConfig{}, LinkConfig{})
		p.send(0, 9, 100, 0)
		p.send(last, 1, 100, 0)
		p.drain()
		return p.net.Hash()
	}
	if run(9) == run(10) {
		t.Fatal("a packet's byte changed, the hash did not")
	}
}

func TestLossDropsTheGivenShare(t *testing.T) {
	p := newPair(t, 3, LinkConfig{Egress: Faults{Loss: 0.25}}, LinkConfig{})
	p.send(0, 4000, 16, 0)
	p.drain()
	got := len(p.received(p.b))
	if got < 2850 || got > 3150 {
		t.Fatalf("%d of 4000 arrived at 25 %% loss", got)
	}
	if out, _ := p.a.Stats(); out.Lost != 4000-got || out.Packets != 4000 {
		t.Fatalf("stats %+v, %d arrived", out, got)
	}
}

func TestJitterKeepsOrder(t *testing.T) {
	p := newPair(t, 3, LinkConfig{Egress: Faults{Delay: time.Millisecond, Jitter: time.Millisecond}}, LinkConfig{})
	p.send(0, 200, 16, 0)
	p.drain()
	if got := p.received(p.b); !slices.Equal(got, count(200)) {
		t.Fatalf("order %v", got)
	}
	if c := p.net.Clock(); c < time.Millisecond || c > 3*time.Millisecond {
		t.Fatalf("took %v", c)
	}
}

func TestReorderKeepsAllPackets(t *testing.T) {
	p := newPair(t, 3, LinkConfig{}, LinkConfig{Ingress: Faults{Reorder: 0.2}})
	p.send(0, 200, 16, 0)
	p.drain()
	got := p.received(p.b)
	if slices.IsSorted(got) {
		t.Fatal("nothing was reordered")
	}
	slices.Sort(got)
	if !slices.Equal(got, count(200)) {
		t.Fatalf("packets missing or doubled: %v", got)
	}
}

func TestDuplicateFollowsItsPacket(t *testing.T) {
	p := newPair(t, 3, LinkConfig{Egress: Faults{Duplicate: 1}}, LinkConfig{})
	p.send(0, 3, 16, 0)
	p.drain()
	got := p.received(p.b)
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 0, 1, 1, 2, 2}) {
		t.Fatalf("received %v", got)
	}
}

func TestCorruptionIsAlwaysDetectable(t *testing.T) {
	for _, dst := range []string{"10.0.0.2:4791", "[fd00::2]:4791"} {
		n := New(9)
		to := netip.MustParseAddrPort(dst)
		from := addrA
		if to.Addr().Is6() {
			from = netip.MustParseAddrPort("[fd00::1]:4791")
		}
		a := n.Attach(from, LinkConfig{Egress: Faults{Corrupt: 1}})
		b := n.Attach(to, LinkConfig{NoCoalescing: true})
		f, err := a.OpenFlow(to, 1)
		if err != nil {
			t.Fatal(err)
		}
		ports, headers, payloads := 0, 0, 0
		var rx link.Rx
		for i := range 3000 {
			good := datagram(f, 0, uint32(i), 64)
			if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{good}, Bytes: len(good), Size: len(good)}); err != nil {
				t.Fatal(err)
			}
			for n.Step() {
			}
			if ok, _ := b.Receive(&rx); !ok {
				t.Fatal("lost")
			}
			h := ib.NewPseudoHeader(rx.Src, rx.Dst)
			var c ib.Checker
			if id, ok := c.Check(&h, 0, rx.Data); ok {
				t.Fatalf("packet %d passes the ICRC with identification %d", i, id)
			}
			if rx.Src != f.Src {
				ports++
			}
			if !slices.Equal(rx.Data[:ib.BTHLen], good[:ib.BTHLen]) {
				headers++
			}
			if !slices.Equal(rx.Data[ib.BTHLen:], good[ib.BTHLen:]) {
				payloads++
			}
		}
		if ports == 0 || headers == 0 || payloads == 0 {
			t.Fatalf("flips in %d ports, %d headers, %d payloads", ports, headers, payloads)
		}
	}
}

func TestBandwidthSpacesPackets(t *testing.T) {
	p := newPair(t, 1, LinkConfig{Egress: Faults{Bandwidth: 1e9}}, LinkConfig{})
	p.send(0, 100, 984, 0) // 1,000 bytes with BTH and ICRC
	p.drain()
	if got := len(p.received(p.b)); got != 100 {
		t.Fatalf("%d arrived", got)
	}
	want := 100 * time.Duration((1000+wireOverhead)*8)
	if got := p.net.Clock() - 2*defaultDelay; got != want {
		t.Fatalf("100 packets took %v on the wire, expected %v", got, want)
	}
}

func TestQueueMarksThenDrops(t *testing.T) {
	f := Faults{Bandwidth: 1e9, Queue: 50_000, MarkAbove: 20_000}
	p := newPair(t, 1, LinkConfig{}, LinkConfig{Ingress: f})
	p.send(0, 100, 984, 2)
	p.drain()
	_, in := p.b.Stats()
	if in.Marked < 20 || in.Marked > 40 || in.QueueFull < 40 || in.QueueFull > 60 {
		t.Fatalf("stats %+v", in)
	}
	if got := len(p.received(p.b)); got != 100-in.QueueFull {
		t.Fatalf("%d arrived, %d dropped", got, in.QueueFull)
	}
	if p.rx.TOS&3 != 3 {
		t.Fatalf("last packet has ECN %d, expected CE", p.rx.TOS&3)
	}
	p = newPair(t, 1, LinkConfig{}, LinkConfig{Ingress: f})
	p.send(0, 100, 984, 0)
	p.drain()
	if _, in := p.b.Stats(); in.Marked != 0 {
		t.Fatalf("%d packets marked that are not ECN-capable", in.Marked)
	}
}

func TestMTURefusesOrDrops(t *testing.T) {
	p := newPair(t, 1, LinkConfig{Egress: Faults{MTU: 100}}, LinkConfig{})
	b := datagram(p.flow, 0, 0, 200)
	err := p.a.Send(&link.Tx{Flow: &p.flow.Flow, Pieces: [][]byte{b}, Bytes: len(b), Size: len(b)})
	if !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("own MTU: %v", err)
	}
	p = newPair(t, 1, LinkConfig{}, LinkConfig{Ingress: Faults{MTU: 100}})
	p.send(0, 1, 200, 0)
	p.send(1, 1, 20, 0)
	p.drain()
	if got := p.received(p.b); !slices.Equal(got, []int{1}) {
		t.Fatalf("path MTU: received %v", got)
	}
}

func TestReceiveJoinsPacketsOfOneFlowAndSize(t *testing.T) {
	for _, each := range []bool{false, true} {
		p := newPair(t, 1, LinkConfig{}, LinkConfig{NoCoalescing: each})
		p.send(0, 5, 64, 0)
		p.send(5, 1, 32, 0)
		p.send(6, 2, 64, 0)
		p.drain()
		var sizes []int
		for {
			ok, err := p.b.Receive(&p.rx)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			sizes = append(sizes, len(p.rx.Data))
		}
		want := []int{5*80 + 48, 2 * 80}
		if each {
			want = []int{80, 80, 80, 80, 80, 48, 80, 80}
		}
		if !slices.Equal(sizes, want) {
			t.Fatalf("batches of %v bytes, expected %v", sizes, want)
		}
	}
}

func TestReceiveBufferOverruns(t *testing.T) {
	p := newPair(t, 1, LinkConfig{}, LinkConfig{ReceiveBuffer: 800})
	p.send(0, 12, 64, 0)
	p.drain()
	if got := len(p.received(p.b)); got != 10 || p.b.Overruns != 2 {
		t.Fatalf("%d arrived, %d overran", got, p.b.Overruns)
	}
}

func TestMulticastReachesMembersOnly(t *testing.T) {
	n := New(1)
	group := netip.MustParseAddr("ff02::1234")
	var links []*Link
	for _, a := range []string{"[fd00::1]:4791", "[fd00::2]:4791", "[fd00::3]:4791", "[fd00::4]:4792"} {
		links = append(links, n.Attach(netip.MustParseAddrPort(a), LinkConfig{}))
	}
	for _, i := range []int{0, 1, 3} {
		if err := links[i].Join(group); err != nil {
			t.Fatal(err)
		}
	}
	p := &pair{t: t, net: n, a: links[0]}
	var err error
	if p.flow, err = links[0].OpenFlow(netip.AddrPortFrom(group, 4791), 1); err != nil {
		t.Fatal(err)
	}
	p.send(0, 3, 32, 0)
	p.drain()
	for i, want := range []int{3, 3, 0, 0} { // the fourth listens on another port
		if got := len(p.received(links[i])); got != want {
			t.Errorf("link %d received %d, expected %d", i, got, want)
		}
	}
	if err := links[1].Leave(group); err != nil {
		t.Fatal(err)
	}
	p.send(3, 1, 32, 0)
	p.drain()
	if got := len(p.received(links[1])); got != 0 {
		t.Errorf("received %d after leaving", got)
	}
	if err := links[1].Leave(group); !errors.Is(err, ErrGroup) {
		t.Errorf("leaving twice: %v", err)
	}
	if err := links[1].Join(netip.MustParseAddr("224.0.0.5")); !errors.Is(err, ErrGroup) {
		t.Errorf("group of the other family: %v", err)
	}
}

func TestFlowsShareByPortAndCount(t *testing.T) {
	p := newPair(t, 1, LinkConfig{Ports: 1}, LinkConfig{})
	f, err := p.a.OpenFlow(addrB, 77)
	if err != nil || f != p.flow || p.a.Flows() != 1 {
		t.Fatalf("one port gave another flow: %v, %v", f, err)
	}
	p.a.CloseFlow(&f.Flow)
	p.send(0, 1, 32, 0)
	p.a.CloseFlow(&f.Flow)
	if err := p.a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{{1}}, Bytes: 1, Size: 1}); !errors.Is(err, ErrFlow) {
		t.Fatalf("sending on a closed flow: %v", err)
	}
	if p.a.Flows() != 0 {
		t.Fatalf("%d flows left", p.a.Flows())
	}
	if _, err := p.a.OpenFlow(netip.MustParseAddrPort("[fd00::1]:4791"), 1); !errors.Is(err, ErrFamily) {
		t.Fatalf("peer of the other family: %v", err)
	}
}

func TestSendHoldsTheSenderToItsContract(t *testing.T) {
	p := newPair(t, 1, LinkConfig{Segments: 2}, LinkConfig{})
	// Packets 0, 1, 0 of three: the count restarts after two.
	three := [][]byte{datagram(p.flow, 0, 0, 32), datagram(p.flow, 1, 1, 32), datagram(p.flow, 0, 2, 32)}
	tx := link.Tx{Flow: &p.flow.Flow, Pieces: three, Bytes: 3 * len(three[0]), Size: len(three[0])}
	if err := p.a.Send(&tx); err != nil {
		t.Fatal(err)
	}
	tx.Pieces[2] = datagram(p.flow, 2, 2, 32)
	if err := p.a.Send(&tx); !errors.Is(err, ErrICRC) || p.a.Wrong == nil {
		t.Fatalf("identification not begun again: %v", err)
	}
	tx.Bytes++
	if err := p.a.Send(&tx); !errors.Is(err, ErrBatch) {
		t.Fatalf("wrong sum of bytes: %v", err)
	}
}

// A ticker asks to be driven every period, a number of times.
type ticker struct {
	net    *Network
	period time.Duration
	due    time.Duration
	left   int
}

func (k *ticker) Progress() time.Duration {
	if k.net.Clock() >= k.due && k.left > 0 {
		k.left--
		k.due = k.net.Clock() + k.period
	}
	if k.left == 0 {
		return never
	}
	return k.due
}

func TestRunAdvancesToDeadlinesAndEnds(t *testing.T) {
	n := New(1)
	k := &ticker{net: n, period: time.Second, left: 5}
	n.Drive(k)
	if err := n.Run(func() bool { return k.left == 2 }, time.Minute); err != nil || n.Clock() != 2*time.Second {
		t.Fatalf("%v at %v", err, n.Clock())
	}
	if err := n.Run(func() bool { return k.left == 0 }, 1500*time.Millisecond); !errors.Is(err, ErrLimit) {
		t.Fatalf("limit: %v", err)
	}
	if n.Clock() != 3500*time.Millisecond {
		t.Fatalf("limit passed at %v", n.Clock())
	}
	if err := n.Run(func() bool { return false }, time.Hour); !errors.Is(err, ErrIdle) {
		t.Fatalf("idle: %v", err)
	}
	k.left = 1
	n.Release(k)
	n.Sleep(time.Minute)
	if k.left != 1 {
		t.Fatal("driven after Release")
	}
}

func TestSendReceiveAllocateNothing(t *testing.T) {
	p := newPair(t, 1, LinkConfig{}, LinkConfig{})
	b := datagram(p.flow, 0, 1, 64)
	tx := link.Tx{Flow: &p.flow.Flow, Pieces: [][]byte{b}, Bytes: len(b), Size: len(b)}
	allocs := testing.AllocsPerRun(100, func() {
		_ = p.a.Send(&tx)
		for p.net.Step() {
		}
		_, _ = p.b.Receive(&p.rx)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per packet", allocs)
	}
}
