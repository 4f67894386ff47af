package iwarp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// Messages wait for receives that are posted late and one at a time. The stream arrives in random
// pieces. Each message arrives once, unchanged and in order. Everything between messages waits as
// well.
func TestMessagesWaitForReceives(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPair(t, nil)
			p.rnd = rand.New(rand.NewPCG(seed, 79))
			p.maxPiece = []int{1, 3, 50, 1000, 9000, 300000}[p.rnd.IntN(6)]
			var params [2]*Params
			for i := range params {
				params[i] = &Params{NoCRC: p.rnd.IntN(2) == 0, Markers: p.rnd.IntN(2) == 0, ClientServer: true, IRD: 4, ORD: 4, MaxFPDU: []int{0, 128, 1452}[p.rnd.IntN(3)]}
			}
			p.connect(params[0], params[1])
			a, b := p.n[0], p.n[1]
			for i := range a.mem[:100000] {
				a.mem[i] = byte(p.rnd.Uint32())
			}
			const count = 12
			var kinds [count]queue.Op
			var want [count]int
			for i := range count {
				kinds[i] = []queue.Op{queue.Send, queue.Send, queue.WriteImm}[p.rnd.IntN(3)]
				want[i] = p.rnd.IntN([]int{1, 60, 5000}[p.rnd.IntN(3)])
				a.post(kinds[i], 5000*i, want[i], b.target(100000+5000*i))
				a.post(queue.Read, 300000, 8, b.target(0))
			}
			stalls := 0
			p.late = func(i int) {
				if stalls++; p.rnd.IntN(3) > 0 {
					n := len(b.Received.List)
					b.PostRecv(uint64(n), b.sge(200000+5000*n, 5000))
				}
			}
			p.run()
			if len(b.Received.List) != count || len(a.Sent.List) != 2*count || stalls < count {
				t.Fatalf("received %d, sent %d, %d stalls; refused %v %v", len(b.Received.List), len(a.Sent.List), stalls, a.Refused, b.Refused)
			}
			for i, c := range b.Received.List {
				at := 200000
				if kinds[i] == queue.WriteImm {
					at = 100000
				}
				at += 5000 * i
				if c.Status != queue.Success || c.WRID != uint64(i) || int(c.ByteLen) != want[i] || !bytes.Equal(b.mem[at:at+want[i]], a.mem[5000*i:5000*i+want[i]]) {
					t.Errorf("message %d: %+v, or other bytes; expected %d", i, c, want[i])
				}
			}
		})
	}
}

func stalled(t *testing.T) *raw {
	t.Helper()
	r := newRaw(t, defaults(), nil)
	b := r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 1}, make([]byte, 40))
	room := r.s.Room(0, r.scratch[:])
	r.s.Filled(0, copy(room[0], append(b, b[:5]...)))
	if !r.s.Stalled() || r.s.Deadline() != firstPoll || len(r.Refused) != 0 {
		t.Fatalf("stalled %t, deadline %v, refused %v", r.s.Stalled(), r.s.Deadline(), r.Refused)
	}
	return r
}

// While a message waits nothing is read. The wait is bounded.
func TestWaitForAReceiveEnds(t *testing.T) {
	r := stalled(t)
	looks := 0
	for r.s.Stalled() {
		if room := r.s.Room(r.now, r.scratch[:]); len(room) != 0 {
			t.Fatal("room for more")
		}
		looks++
		r.now = r.s.Deadline()
		r.s.Expire(r.now)
	}
	if r.now != stallTimeout || looks > 300 {
		t.Errorf("waited %v with %d looks", r.now, looks)
	}
	if m, ok := r.termination(true); !ok || m.Term != iwarp.TermUntaggedBuffer || r.last().Kind != Closed || r.last().Detail.Reason != reason.DDPNoBuffer {
		t.Errorf("sent %+v, heard %+v", m, r.last())
	}
	if r.q.rx.stall.rest != nil {
		t.Error("keeps bytes that are never read")
	}
}

// The end of a connection ends the wait of a message.
func TestEndOfAConnectionEndsTheWait(t *testing.T) {
	for name, end := range map[string]func(r *raw){
		"disconnected": func(r *raw) { _ = r.s.Disconnect(0) },
		"error state":  func(r *raw) { r.Attr.State = qp.Err; r.q.Transition(0, qp.RTS) },
		"reset":        func(r *raw) { r.Attr.State = qp.Reset; r.q.Transition(0, qp.RTS) },
		"lost":         func(r *raw) { r.s.Closed(0, true) },
		"aborted":      func(r *raw) { r.s.Abort(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := stalled(t)
			end(r)
			if r.s.Stalled() || r.q.rx.stall.rest != nil || r.s.Deadline() != machine.Never && r.s.Deadline() < closeTimeout {
				t.Errorf("stalled %t, deadline %v", r.s.Stalled(), r.s.Deadline())
			}
			if len(r.s.Room(0, r.scratch[:])) == 0 {
				t.Error("the peer's end cannot be read")
			}
			r.PostRecv(1, r.sge(0, 100))
			r.s.Expire(firstPoll)
			for _, c := range r.Received.List {
				if c.Status == queue.Success {
					t.Errorf("received %+v", c)
				}
			}
		})
	}
}
