package rc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A revoked payload was overwritten before it could be copied.
type revoked struct{}

func (revoked) Intact() bool { return false }

// A packet whose payload was taken back while it was copied is a lost packet: nothing
// completes with its bytes, and its repetition uses up no second receive.
func TestRevokedPayloadIsALostPacket(t *testing.T) {
	for _, extended := range []bool{false, true} {
		for _, longest := range []int{1, 64} {
			t.Run(fmt.Sprintf("extended %v longest %d", extended, longest), func(t *testing.T) {
				lost := 0
				for seed := range uint64(20) {
					lost += revokeSome(t, extended, longest, seed)
				}
				if lost == 0 {
					t.Error("no loss was refused by its name")
				}
			})
		}
	}
}

func revokeSome(t *testing.T, extended bool, longest int, seed uint64) (lost int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newPair(t, nil)
	if extended {
		w = newSelective(t, nil)
	}
	w.fastPath = seed%2 == 1
	w.longest = func() int { return longest }
	w.fate = func(int, int, *ib.Packet) (copies, late int) {
		if rng.IntN(12) == 0 {
			return 0, 0
		}
		return 1, 0
	}
	w.lender = func(_ int, payload []byte) machine.Lender {
		if rng.IntN(6) > 0 {
			return nil
		}
		for k := range payload {
			payload[k] ^= 0xff
		}
		return revoked{}
	}
	a, b := w.n[0], w.n[1]
	const n, sends = 9*testMTU + 5, 4
	fill(a.mem, 3)
	want := bytes.Clone(a.mem)
	for i := range sends + 1 {
		b.postRecv(uint64(i), b.sge((i+1)*n, n))
	}
	copy(b.mem[20*n:], want[7*n:8*n])
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, n)}, remote: b.target(0)})
	for i := range sends {
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge((i+1)*n, n)}})
	}
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(15*n, n)}, remote: b.target(20 * n)})
	a.post(wqe{op: queue.WriteImm, list: []memory.SGE{a.sge(6*n, n)}, remote: b.target(6 * n)})
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0, 0, 0)
	w.wantStatuses(&b.recv, 0, 0, 0, 0, 0)
	for i, e := range b.recv.list {
		if e.WRID != uint64(i) || e.ByteLen != n {
			t.Errorf("seed %d, receive %d: %+v", seed, i, e)
		}
	}
	if !bytes.Equal(b.mem[:(sends+1)*n], want[:(sends+1)*n]) || !bytes.Equal(b.mem[6*n:7*n], want[6*n:7*n]) ||
		!bytes.Equal(a.mem[15*n:16*n], want[7*n:8*n]) {
		t.Errorf("seed %d: a message completed with bytes that were revoked", seed)
	}
	return a.count(reason.HostRevoked) + b.count(reason.HostRevoked)
}

// Payloads that the peer cannot read are sent again at once, without any timer.
func TestUnreadablePayloadIsRepeatedWithoutTimer(t *testing.T) {
	for _, selective := range []bool{false, true} {
		for _, longest := range []int{1, 4, 64} {
			for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Send, queue.Read} {
				for requests := 1; requests <= 3; requests++ {
					t.Run(fmt.Sprintf("selective %v longest %d %v %d", selective, longest, op, requests), func(t *testing.T) {
						repeatUnread(t, selective, longest, op, requests)
					})
				}
			}
		}
	}
}

func repeatUnread(t *testing.T, selective bool, longest int, op queue.Op, requests int) {
	forever := func(_ int, p *machine.Port) { p.Attr.Timeout = 0 }
	w := newPair(t, forever)
	if selective {
		w = newSelective(t, forever)
	}
	w.longest = func() int { return longest }
	came := map[psn.PSN]bool{}
	unread := 0
	w.unread = func(_ int, p *ib.Packet) bool {
		if came[p.PSN] {
			return false
		}
		came[p.PSN] = true
		unread++
		return true
	}
	a, b := w.n[0], w.n[1]
	const n = 9*testMTU + 5
	fill(a.mem, 3)
	fill(b.mem[:requests*n], 5)
	for i := range requests {
		b.postRecv(uint64(i), b.sge(i*n, n))
		a.post(wqe{op: op, list: []memory.SGE{a.sge(i*n, n)}, remote: b.target(i * n)})
	}
	w.quiet()
	w.wantStatuses(&a.send, make([]queue.Status, requests)...)
	if op == queue.WriteImm || op == queue.Send {
		w.wantStatuses(&b.recv, make([]queue.Status, requests)...)
	}
	if !bytes.Equal(a.mem[:requests*n], b.mem[:requests*n]) {
		t.Error("other bytes arrived")
	}
	if unread == 0 {
		t.Error("all payloads could be read")
	}
	w.settle()
	w.holdsNothing()
}
