package rc

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// A sentPacket is what a machine has produced.
type sentPacket struct {
	ib.Packet
	Data []byte
}

func sentBy(out *machine.Out) sentPacket {
	p := sentPacket{Packet: out.Packet, Data: bytes.Join(out.Pieces, nil)}
	p.Payload = nil
	if len(p.Data) != out.Len {
		panic("the pieces have another length")
	}
	return p
}

// takeFollowing produces packets with Next, and in the second pair with Follow where that does.
func takeFollowing(n *node, now time.Duration, most int, follow bool) (sent []sentPacket, followed int) {
	var out machine.Out
	for len(sent) < most && n.q.Next(now, &out) {
		sent = append(sent, sentBy(&out))
		for follow && len(sent) < most && n.q.Follow(now, &out) {
			sent = append(sent, sentBy(&out))
			followed++
		}
	}
	return sent, followed
}

// randomRequest is a request to post: one of the usual operation, and of a packet, mostly.
func randomRequest(r *rand.Rand, usual queue.Op, from, to *node) wqe {
	n := 1 + r.IntN(quietLength*5/4)
	if r.IntN(4) == 0 {
		n = 1 + r.IntN(testMTU*5/4)
	}
	w := wqe{op: usual, list: []memory.SGE{from.sge(r.IntN(64), n)}, remote: to.target(r.IntN(64))}
	if usual == queue.Send && r.IntN(2) == 0 {
		w.flags, w.list, w.inline = queue.Inline, nil, make([]byte, 1+r.IntN(64))
	}
	switch r.IntN(150) {
	case 0:
		w.op = queue.Read
	case 1:
		w.op = queue.Send
	case 2:
		w.op = queue.WriteImm
	case 3:
		w.flags, w.list, w.inline = queue.Inline, nil, make([]byte, 1+r.IntN(64))
	case 4:
		w.flags |= queue.Fence
	case 5, 6, 7, 8:
		if w.inline == nil {
			unusualList(r, &w, from)
		}
	case 9, 10, 11, 12:
		w.flags |= queue.Signaled
	case 13:
		w.flags |= queue.Solicited
	case 14:
		w.op = queue.Write
	}
	return w
}

// unusualList makes the memory of a request unusual.
func unusualList(r *rand.Rand, w *wqe, from *node) {
	switch r.IntN(4) {
	case 0:
		w.list[0].Length = 0
	case 1:
		w.list = append(w.list, from.sge(100, 7))
	case 2:
		w.list[0].Length = 5000
	case 3:
		if r.IntN(20) == 0 {
			w.list[0].LKey++
		}
	}
}

// Follow produces the packets that Next would, and leaves the machine as Next would.
func TestFollowMatchesNext(t *testing.T) {
	seeds, unpaced, followed := uint64(60), 0, [2]int{}
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		usual := []queue.Op{queue.Write, queue.Send}[seed%2]
		c := Config{Control: congestion.Kind(r.IntN(int(congestion.None) + 1))}
		if c.Control != congestion.DCQCN && c.Control != congestion.Path {
			unpaced++ // Follow leaves packets that wait for their time to Next
		}
		if r.IntN(2) == 0 {
			c.Store = NewStore(DefaultStore)
		}
		window := 600 + r.IntN(20000)
		var pairs [2]*pair
		for k := range pairs {
			pairs[k] = newPairWith(t, [2]Config{c, c}, func(_ int, p *machine.Port) { p.Window, p.SQSigAll = window, false })
		}
		for now := time.Duration(0); now < 150*time.Microsecond; now += time.Microsecond {
			for range r.IntN(12) {
				if pairs[0].n[0].port.SQ.Full() || pairs[1].n[0].port.SQ.Full() {
					break
				}
				s := r.Uint64()
				for _, w := range pairs {
					w.n[0].post(randomRequest(rand.New(rand.NewPCG(s, 1)), usual, w.n[0], w.n[1]))
				}
			}
			most := 1 + r.IntN(20)
			want, _ := takeFollowing(pairs[0].n[0], now, most, false)
			found, n := takeFollowing(pairs[1].n[0], now, most, true)
			followed[seed%2] += n
			for _, list := range [][]sentPacket{want, found} {
				for k := range list {
					list[k].RETH.RKey = 0 // random
				}
			}
			if d := cmp.Diff(want, found); d != "" {
				t.Fatalf("seed %d at %v (- Next, + Follow):\n%s", seed, now, d)
			}
			if len(want) > 0 && r.IntN(3) > 0 {
				credits := ib.Syndrome(0x1f) // none are said
				if r.IntN(3) == 0 {
					credits = ib.Syndrome(r.IntN(12))
				}
				in := machine.In{Src: testAddrs[1], Packet: ackPacket(credits, want[r.IntN(len(want))].PSN)}
				if r.IntN(10) == 0 {
					in.AETH.Syndrome = ib.NAKSequence
				}
				for _, w := range pairs {
					w.n[0].q.Receive(now, &in)
				}
			}
			a, b := pairs[0].n[0], pairs[1].n[0]
			if x, y := a.q.Deadline(), b.q.Deadline(); x != y {
				t.Fatalf("seed %d at %v: deadline %v with Next, %v with Follow", seed, now, x, y)
			}
			if x, y := a.q.InFlight(), b.q.InFlight(); x != y {
				t.Fatalf("seed %d at %v: %d bytes in flight with Next, %d with Follow", seed, now, x, y)
			}
			if d := cmp.Diff(a.send.list, b.send.list, cmpopts.IgnoreFields(queue.CQE{}, "Found")); d != "" { // of a random key
				t.Fatalf("seed %d at %v, completions (- Next, + Follow):\n%s", seed, now, d)
			}
		}
	}
	t.Logf("Follow produced %d packets where WRITEs are usual, %d where SENDs are, in %d runs", followed[0], followed[1], unpaced)
	if min(followed[0], followed[1]) < unpaced*10 {
		t.Error("expected 10 of each in a run")
	}
}
