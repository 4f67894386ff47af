package rc

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// injectSends sends n forged SENDs in sequence to node 1, from another port than the peer's, over a time.
// The attacker knows the PSN that is due. It returns how many were executed.
func (w *pair) injectSends(n int, port uint16, during time.Duration) int {
	b := w.n[1]
	before := len(b.recv.list)
	for i := range n {
		w.idle(during / time.Duration(n))
		p := sendPacket(0, 0xee)
		p.PSN, p.Selective = b.q.resp.Expected(), b.q.c.Selective()
		if i%2 == 0 { // an answer to a probe, in case that there was one
			w.forge(1, port, ib.Packet{BTH: ib.BTH{Opcode: ib.RCAcknowledge, PSN: b.q.req.before().Add(1 << 20)}, AETH: ib.AETH{Syndrome: ib.ACKNoCredits}})
		}
		w.forge(1, port, p)
	}
	return len(b.recv.list) - before
}

// An attacker knows the PSN, and the peer is silent. Of a softrdma peer nothing counts, and of a
// standard peer one packet in ten seconds.
func TestForgedSendsToIdleConnectionDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name      string
		selective bool
		answers   bool // the attacked end has sent requests, too
		least     int
		most      int
	}{{"softrdma", true, false, 0, 0}, {"softrdma, both ways", true, true, 0, 0}, {"standard", false, false, 0, 3}, {"standard, both ways", false, true, 0, 3}} {
		t.Run(c.name, func(t *testing.T) {
			w := newRunning(t, c.selective)
			a, b := w.n[0], w.n[1]
			if c.answers {
				b.post(wqe{op: queue.Write, list: []memory.SGE{b.sge(0, 8)}, remote: a.target(0)})
				w.settle()
			}
			for i := range uint64(60) {
				b.postRecv(i, b.sge(0, 8))
			}
			w.idle(time.Second)
			if n := w.injectSends(1000, otherPort, 20*time.Second); n < c.least || n > c.most {
				t.Errorf("%d forged SENDs were executed, expected %d to %d", n, c.least, c.most)
			}
			if n := b.count(reason.PeerProbe); n > 20*int(time.Second/machine.OriginQuiet) {
				t.Errorf("%d probes", n)
			}
			if !c.selective { // what counted took the PSN of a genuine request
				return
			}
			a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("genuine.")})
			w.settle()
			w.wantStatuses(&a.send, 0)
			w.wantStatuses(&b.recv, 0)
			if b.q.check.running || b.q.Deadline() != machine.Never {
				t.Error("the check goes on")
			}
		})
	}
}

// The attacker even knows the PSN that answers a probe. The peer answers from its own port, so the
// other one is not confirmed.
func TestForgedAnswersToProbesConfirmNoPort(t *testing.T) {
	w := newRunning(t, true)
	b := w.n[1]
	for i := range uint64(60) {
		b.postRecv(i, b.sge(0, 8))
	}
	w.idle(time.Second)
	for range 500 {
		w.idle(7 * time.Millisecond)
		p := sendPacket(0, 0xee)
		p.PSN = b.q.resp.Expected()
		w.forge(1, otherPort, p)
		w.forge(1, otherPort, ib.Packet{
			BTH: ib.BTH{Opcode: ib.RCSelectiveAck, PSN: b.q.req.before()}, AETH: ib.AETH{Syndrome: ib.ACKNoCredits}, Payload: own.AppendDuplicates(nil, 1000),
		})
	}
	if n := len(b.recv.list); n != 0 || !b.q.origins[ofRequests].Is(truePort) {
		t.Errorf("%d forged SENDs were executed", n)
	}
}

// Both ends may change their ports at the same time, and each checks the other's.
func TestBothPeersMayChangeTheirPorts(t *testing.T) {
	for _, selective := range []bool{false, true} {
		w := newRunning(t, selective)
		for i, n := range w.n {
			n.port.Attr.Timeout = 14
			n.post(wqe{op: queue.Write, list: []memory.SGE{n.sge(0, 8)}, remote: w.n[1-i].target(0)})
		}
		w.settle()
		for round := range uint16(3) {
			w.idle(time.Second)
			for i, n := range w.n {
				n.addr = netip.AddrPortFrom(n.addr.Addr(), 0xc000+round*2+uint16(i))
				n.send.list = nil
				for range 5 {
					n.post(wqe{op: queue.Write, list: []memory.SGE{n.sge(0, 8)}, remote: w.n[1-i].target(0)})
				}
			}
			w.settle()
			for i, n := range w.n {
				w.wantStatuses(&n.send, 0, 0, 0, 0, 0)
				if !n.q.origins[ofRequests].Is(w.n[1-i].addr.Port()) {
					t.Errorf("selective %v: node %d does not know the peer's port", selective, i)
				}
			}
		}
	}
}

// A queue pair in RTR cannot probe: there the silence of the old port decides.
func TestReceiverInRTRFollowsItsPeer(t *testing.T) {
	w := newRunning(t, true)
	a, b := w.n[0], w.n[1]
	b.to(0, qp.Reset)
	b.to(0, qp.Init)
	b.to(0, qp.RTR)
	a.to(0, qp.Reset)
	a.to(0, qp.Init)
	a.to(0, qp.RTR)
	a.to(0, qp.RTS)
	a.port.Attr.Timeout = 14
	w.postWrites(1)
	w.settle()
	w.now += time.Second
	a.addr = netip.AddrPortFrom(a.addr.Addr(), otherPort)
	w.postWrites(1)
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
}

// A silent peer that has gone confirms nothing, and the check ends.
func TestCheckOfSilentPeerEnds(t *testing.T) {
	w := newRunning(t, true)
	b := w.n[1]
	b.postRecv(1, b.sge(0, 8))
	w.idle(time.Second)
	w.fate = dropAll
	p := sendPacket(0, 0xee)
	p.PSN = b.q.resp.Expected()
	w.forge(1, otherPort, p)
	w.idle(10 * time.Second)
	if n := b.count(reason.PeerProbe); n < 5 || n > 11 || b.q.Deadline() != machine.Never || len(b.recv.list) != 0 || b.port.Attr.State != qp.RTS {
		t.Errorf("%d probes, state %v", n, b.port.Attr.State)
	}
}
