package rc

import (
	"slices"
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// Through memory, a peer's request completes before the peer receives the answer. On a network both leave as one
// batch, with the shorter acknowledge at its end.
func TestAcknowledgeLeavesBeforeTheAnswerThroughMemory(t *testing.T) {
	for _, c := range []struct {
		lossless bool
		want     []ib.Opcode
	}{{true, []ib.Opcode{ib.RCAcknowledge, ib.RCSendOnly}}, {false, []ib.Opcode{ib.RCSendOnly, ib.RCAcknowledge}}} {
		w := newPair(t, nil)
		w.lossless, w.keep = c.lossless, true
		a, b := w.n[0], w.n[1]
		b.postRecv(1, b.sge(0, 8))
		a.postRecv(2, a.sge(8, 8))
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
		w.take(0, 1)
		w.deliver(1, 1)
		b.post(wqe{op: queue.Send, list: []memory.SGE{b.sge(8, 8)}})
		w.take(1, 4)
		var got []ib.Opcode
		for _, p := range w.sent[0] {
			got = append(got, p.Opcode)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("lossless %v: sent %v, expected %v", c.lossless, got, c.want)
		}
	}
}
