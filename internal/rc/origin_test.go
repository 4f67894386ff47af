package rc

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/pathmtu"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// forge delivers a packet to node i with the peer's address and the given source port.
func (w *pair) forge(i int, port uint16, p ib.Packet) {
	p.DestQPN = w.n[i].port.QPN
	p.Pad = ib.PadLen(len(p.Payload))
	w.give(i, packet{b: append(p.Append(nil), 0, 0, 0, 0), src: netip.AddrPortFrom(testAddrs[1-i].Addr(), port)})
}

// The ports of testAddrs, and one that the connection does not use.
const (
	truePort  = 4791
	otherPort = 0xc001
)

// sendPacket returns a forged SEND whose PSN is d after the one expected from node 0.
func sendPacket(d int, payload ...byte) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: psn.PSN(testPSN0).Add(d), AckReq: true, Selective: true}, Payload: payload}
}

// newRunning connects two softrdma ends, or one with a standard peer, and exchanges messages.
func newRunning(t testing.TB, selective bool) *pair {
	w := newPair(t, nil)
	if selective {
		w = newSelective(t, nil)
	}
	w.postWrites(1)
	w.settle()
	w.n[0].send.list = nil
	w.n[0].q.req.credits.limit = noLimit // tests post receives from here on
	for _, n := range w.n {
		n.refused = nil
	}
	return w
}

// Without the check of the port, one such packet in 4096 PSNs would be executed instead of the
// genuine one.
func TestForgedSendFromAnotherPortIsNotHeld(t *testing.T) {
	w := newRunning(t, true)
	a, b := w.n[0], w.n[1]
	for i := range uint64(4) {
		b.postRecv(i, b.sge(int(i)*8, 8))
	}
	for d := 2; d < 4; d++ {
		w.forge(1, otherPort, sendPacket(d, 0xee))
	}
	if b.count(reason.PacketSourcePort) != 2 || b.q.resp.Holds() {
		t.Errorf("refused %v", b.refused)
	}
	for range 4 {
		a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("genuine.")})
	}
	w.settle()
	w.wantStatuses(&b.recv, 0, 0, 0, 0)
	if want := bytes.Repeat([]byte("genuine."), 4); !bytes.Equal(b.mem[:32], want) {
		t.Errorf("received %q", b.mem[:32])
	}
	w.holdsNothing()
}

// A request from another port is accepted only with the PSN that is due next, and of a softrdma
// peer not before it has confirmed the port. A probe is answered, as it executes nothing.
func TestPacketFromAnotherPortCountsByItsPSN(t *testing.T) {
	type row struct {
		name      string
		selective bool
		silent    time.Duration
		d         int // after the expected PSN
		taken     bool
	}
	for _, c := range []row{
		{"standard, expected", false, 0, 0, true},
		{"standard, last one again", false, 0, -1, true},
		{"standard, ahead", false, time.Hour, 1, false},
		{"standard, duplicate", false, time.Hour, -2, false},
		{"softrdma, expected", true, 0, 0, false},
		{"softrdma, expected, after a while", true, machine.OriginQuiet, 0, false},
		{"softrdma, probe", true, 0, -1, true},
		{"softrdma, ahead", true, time.Hour, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newRunning(t, c.selective)
			b := w.n[1]
			b.postRecv(0)
			w.now = b.q.heard + c.silent
			p := sendPacket(1 + c.d)
			p.Selective = c.selective
			w.forge(1, otherPort, p)
			if got := b.count(reason.PacketSourcePort) == 0; got != c.taken {
				t.Errorf("taken %v, expected %v: %v", got, c.taken, b.refused)
			}
			if got := len(w.answers()) > b.count(reason.PeerProbe); got != c.taken {
				t.Errorf("answered %v, expected %v", got, c.taken)
			}
		})
	}
}

// A standard peer may change its port at any time. A peer that spreads its packets over ports is
// not bound to one.
func TestPeerMayChangeItsPort(t *testing.T) {
	for _, selective := range []bool{false, true} {
		w := newRunning(t, selective)
		a, b := w.n[0], w.n[1]
		a.port.Attr.Timeout = 14
		for i := range uint16(20) {
			w.now += machine.OriginQuiet
			a.addr = netip.AddrPortFrom(a.addr.Addr(), 0xc000+i)
			w.postWrites(10)
			w.settle()
			w.wantStatuses(&a.send, make([]queue.Status, 10)...)
			a.send.list = nil
			if n := a.count(reason.AckTimeout); n != 0 && !selective { // the old port has to be silent for a while
				t.Fatalf("selective %v, port %d: %d timeouts, refused %v", selective, i, n, b.refused)
			}
		}
		if selective {
			continue
		}
		n := b.count(reason.PacketSourcePort)
		for i := range uint16(60) { // each packet from another port
			a.addr = netip.AddrPortFrom(a.addr.Addr(), 0xd000+i)
			w.postWrites(1)
			w.take(0, 1)
		}
		w.settle()
		if b.count(reason.PacketSourcePort) != n || a.count(reason.AckTimeout) != 0 {
			t.Errorf("a peer that spreads its packets is refused: %v", b.refused)
		}
	}
}

// Answers may come from another port than requests.
func TestAnswersAndRequestsUseSeparatePorts(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	answers, requests := netip.AddrPortFrom(b.addr.Addr(), 0xc010), netip.AddrPortFrom(b.addr.Addr(), 0xc020)
	for range 20 {
		w.postWrites(20)
		w.take(0, 100)
		w.deliver(1, 100)
		b.addr = answers
		w.take(1, 100)
		a.postRecv(0)
		b.post(wqe{op: queue.Send})
		b.addr = requests
		w.take(1, 1)
		w.deliver(0, 100)
		w.take(0, 100)
		w.deliver(1, 100)
	}
	w.settle()
	if a.count(reason.PacketSourcePort) != 0 || len(a.send.list) != 400 || len(a.recv.list) != 20 {
		t.Errorf("%d and %d completions, refused %v", len(a.send.list), len(a.recv.list), a.refused)
	}
}

// Only a packet in sequence sets the expected port. Held packets from other ports are dropped then.
func TestForgedPacketBeforeTheFirstSetsNoPort(t *testing.T) {
	w := newPairWith(t, [2]Config{{}, {Store: NewStore(DefaultStore)}}, nil) // node 0 is a standard peer
	a, b := w.n[0], w.n[1]
	b.to(0, qp.Reset)
	b.to(0, qp.Init)
	b.to(0, qp.RTR)
	b.postRecv(0, b.sge(0, 8))
	b.postRecv(1, b.sge(8, 8))
	w.forge(1, otherPort, sendPacket(1, 0xee))
	if b.raised(machine.EventCommEst) != 0 {
		t.Error("a packet out of sequence counts as a sign of the peer")
	}
	b.to(0, qp.RTS)
	for range 2 {
		a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("genuine.")})
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	if string(b.mem[:16]) != "genuine.genuine." || b.q.c.Peer == conn.Selective {
		t.Errorf("received %q; peer %v", b.mem[:16], b.q.c.Peer)
	}
	for _, p := range w.sent[0] {
		if p.Opcode == ib.RCSelectiveAck && p.PSN != psn.PSN(testPSN0).Add(-1) {
			t.Errorf("a standard peer was sent %v of PSN %v", p.Opcode, p.PSN)
		}
	}
	w.holdsNothing()
}

// If two requests have the same PSN and different content, neither is executed until the peer has
// sent it again.
func TestContradictedHeldRequestIsSentAgain(t *testing.T) {
	for _, forgedFirst := range []bool{true, false} {
		w := newRunning(t, true)
		a, b := w.n[0], w.n[1]
		for i := range uint64(6) {
			b.postRecv(i, b.sge(int(i)*8, 8))
			a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("genuine.")})
		}
		forged := sendPacket(4, []byte("forged..")...)
		if forgedFirst {
			w.forge(1, truePort, forged)
		}
		w.count[1] = 0
		w.fate = drop(1, 0)
		w.take(0, 10)
		w.deliver(1, 10)
		if !forgedFirst {
			w.forge(1, truePort, forged)
		}
		if b.count(reason.HeldContradicted) != 1 || b.q.resp.Holds() && forgedFirst == false {
			t.Errorf("refused %v", b.refused)
		}
		w.settle()
		w.wantStatuses(&a.send, 0, 0, 0, 0, 0, 0)
		if want := bytes.Repeat([]byte("genuine."), 6); !bytes.Equal(b.mem[:48], want) {
			t.Errorf("received %q", b.mem[:48])
		}
		w.holdsNothing()
	}
}

// A repetition of a held request has the same content.
func TestRepetitionDoesNotContradictHeldRequest(t *testing.T) {
	for _, x := range []wqe{
		{op: queue.Send, flags: queue.Inline, inline: []byte("12345678")},
		{op: queue.SendImm, flags: queue.Inline, inline: []byte("12345678"), imm: 5},
		{op: queue.Write, flags: queue.Inline, inline: []byte("12345678")},
		{op: queue.Read}, {op: queue.FetchAdd, atomic: queue.Atomic{CompareAdd: 7}},
	} {
		w := newRunning(t, true)
		a, b := w.n[0], w.n[1]
		for i := range uint64(4) {
			b.postRecv(i, b.sge(0, 64))
			x.remote = b.target(64)
			x.atomic.Addr, x.atomic.RKey = x.remote.Addr, x.remote.RKey
			if x.flags&queue.Inline == 0 {
				x.list = []memory.SGE{a.sge(0, 8)}
			}
			a.post(x)
		}
		w.count[1] = 0
		w.fate = func(_, i int, _ *ib.Packet) (int, int) { // loses the first packet and duplicates the others
			if i == 0 {
				return 0, 0
			}
			return 2, 0
		}
		w.take(0, 10)
		w.fate = nil
		w.settle()
		w.wantStatuses(&a.send, 0, 0, 0, 0)
		if b.count(reason.HeldContradicted) != 0 || b.count(reason.SequenceHeld) == 0 {
			t.Errorf("%v: refused %v", x.op, b.refused)
		}
	}
}

// A softrdma peer's notification names the packet that it is about. A standard notification names
// none, and still slows the sender down (annex A17.9.3).
func TestForgedNotificationNeedsPortAndPSN(t *testing.T) {
	cnp := func(d int) ib.Packet {
		return ib.Packet{BTH: ib.BTH{Opcode: ib.CongestionNotify, BECN: true, PSN: psn.PSN(testPSN0).Add(d)}, Payload: make([]byte, 16)}
	}
	w := newRunning(t, true)
	a := w.n[0]
	w.forge(0, otherPort, cnp(0))
	w.forge(0, truePort, cnp(1))
	w.forge(0, truePort, cnp(-3*lately))
	w.forge(0, truePort, cnp(1<<22))
	if a.count(reason.PacketSourcePort) != 1 || a.count(reason.CongestionPSN) != 3 || a.count(reason.CongestionNotified) != 0 {
		t.Errorf("refused %v", a.refused)
	}
	w.forge(0, truePort, cnp(0))
	if a.count(reason.CongestionNotified) != 1 {
		t.Errorf("refused %v", a.refused)
	}
	w = newRunning(t, false)
	if w.forge(0, otherPort, cnp(1<<22)); w.n[0].count(reason.CongestionNotified) != 1 {
		t.Errorf("refused %v", w.n[0].refused)
	}
}

// A notification names the packet that a router marked: a request, or a response to a READ.
func TestNotificationNamesTheMarkedPacket(t *testing.T) {
	w := newRunning(t, true)
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 40*testMTU)}, remote: b.target(0)})
	w.postWrites(3)
	mark := func(i int) {
		for _, p := range w.wire[i] {
			in := machine.In{Src: p.src, Dst: w.n[i].addr, TOS: 3}
			in.Parse(p.b)
			w.n[i].q.Receive(w.now, &in)
			w.now += time.Millisecond
		}
		w.wire[i] = nil
	}
	for range 4 {
		w.take(0, 100)
		mark(1)
		w.take(1, 100)
		mark(0)
	}
	w.settle()
	for i, n := range w.n {
		if n.count(reason.CongestionNotified) == 0 || n.count(reason.CongestionPSN) != 0 {
			t.Errorf("node %d: %d notified, %d implausible", i, n.count(reason.CongestionNotified), n.count(reason.CongestionPSN))
		}
	}
}

// An attacker who also guesses the port can have requests held, but held requests are executed only
// if the peer has sent them.
func TestForgedSendAheadOfSentRequestsIsDisowned(t *testing.T) {
	for _, fastPath := range []bool{false, true} {
		w := newRunning(t, true)
		w.fastPath = fastPath
		a, b := w.n[0], w.n[1]
		for i := range uint64(30) {
			b.postRecv(i, b.sge(int(i)*8, 8))
		}
		fill(a.mem, 3)
		send := func(n int) {
			for range n {
				a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("genuine.")})
			}
		}
		send(2) // stay in flight meanwhile
		w.take(0, 2)
		for _, d := range []int{6, 7, 20, 31, 32, 33, 40} {
			w.forge(1, truePort, sendPacket(d, []byte("forged..")...))
		}
		w.settle()
		if b.count(reason.SequenceHeld) != 7 || a.count(reason.HeldUnsent) == 0 {
			t.Fatalf("refused %v, %v", a.refused, b.refused)
		}
		send(13)
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 10*testMTU)}, remote: b.target(1000)})
		w.settle()
		send(15)
		w.settle()
		w.wantStatuses(&a.send, make([]queue.Status, 31)...)
		w.wantStatuses(&b.recv, make([]queue.Status, 30)...)
		if want := bytes.Repeat([]byte("genuine."), 30); !bytes.Equal(b.mem[:240], want) {
			t.Errorf("received %q", b.mem[:240])
		}
		if !bytes.Equal(a.mem[:10*testMTU], b.mem[1000:1000+10*testMTU]) || b.count(reason.HeldDisowned) != 1 || a.count(reason.AckTimeout) != 0 {
			t.Errorf("refused %v, %v", a.refused, b.refused)
		}
		if a.q.req.disowns() {
			t.Error("it goes on to disown")
		}
		w.holdsNothing()
	}
}

// Losses alone do not make a sender disown requests that it sent.
func TestLossesAreNotDisowned(t *testing.T) {
	w := newRunning(t, true)
	a, b := w.n[0], w.n[1]
	w.forge(1, truePort, sendPacket(30, 0xee))
	w.quiet()
	w.count[1] = 0
	w.fate = func(to, i int, _ *ib.Packet) (int, int) { // every third is lost once
		if to == 1 && i%3 == 0 {
			return 0, 0
		}
		return 1, 0
	}
	fill(a.mem, 5)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 50*testMTU)}, remote: b.target(0)})
	w.settle()
	w.wantStatuses(&a.send, 0)
	if !bytes.Equal(a.mem[:50*testMTU], b.mem[:50*testMTU]) || b.count(reason.HeldDisowned) != 1 || a.count(reason.HeldUnsent) == 0 {
		t.Errorf("refused %v, %v", a.refused, b.refused)
	}
	w.holdsNothing()
}

// A path probe, an answer to one, or a message that packets are missing counts only with a PSN that the peer may have.
// Otherwise a few guesses of the port would have packets be fragmented, and probes be sent.
func TestForgedPathProbeNeedsPortAndPSN(t *testing.T) {
	probe := func(k own.ProbeKind, d int) ib.Packet {
		p := own.PathProbe{Kind: k, MTU: testMTU}
		return ib.Packet{BTH: ib.BTH{Opcode: ib.RCPathProbe, Selective: true, PSN: psn.PSN(testPSN0).Add(d)}, Payload: p.Append(nil)}
	}
	w := newRunning(t, true)
	b := w.n[1]
	expected := b.q.resp.Expected().Sub(testPSN0)
	for _, k := range []own.ProbeKind{own.Probe, own.Answer, own.Missing} {
		b.refused = nil
		w.forge(1, otherPort, probe(k, expected-1))
		for _, d := range []int{0, 1, 5000, 1 << 22, -1 << 22, -1 - 4*int(conn.Span(testMTU))} {
			w.forge(1, truePort, probe(k, expected+d))
		}
		if b.count(reason.PacketSourcePort) != 1 || b.count(reason.PathProbePSN) != 6 || b.q.narrow != nil {
			t.Errorf("%v: refused %v", k, b.refused)
		}
	}
	w.forge(1, truePort, probe(own.Missing, expected-1))
	if b.q.narrow == nil || b.q.narrow.search.State() != pathmtu.Searching {
		t.Error("the message of the peer was ignored")
	}
}
