package rc

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
)

func TestMeasureCountsWhatIsSentAgainAndTaken(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MinRNRTimer = 14 })
	a, b := w.n[0], w.n[1]
	before, peer := a.q.Measure(), b.q.Measure()
	a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 8)}})
	w.quiet()
	if m := a.q.Measure(); !m.RNRWait || m.Retransmitted != 1 || m.Acknowledged != before.Acknowledged {
		t.Errorf("after an RNR NAK: %+v", m)
	}
	b.postRecv(1, b.sge(0, 8))
	w.settle()
	m := a.q.Measure()
	if m.RNRWait || m.RNRRetries != 0 || m.Retransmitted != 1 || m.Acknowledged != before.Acknowledged+1 || m.Bytes != before.Bytes+8+overhead {
		t.Errorf("after the acknowledge: %+v, before %+v", m, before)
	}
	if m.InFlight != 0 || m.Window <= 0 || m.RoundTrip <= 0 {
		t.Errorf("%+v", m)
	}
	if n := b.q.Measure(); n.Expected != (peer.Expected+1)&0xffffff || n.Retransmitted != 0 {
		t.Errorf("the peer: %+v, before %+v", n, peer)
	}
}
