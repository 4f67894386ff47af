package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

// This file lets the packets of a flow be fragmented while a connection's machine says that the path to its
// peer does not carry whole ones (machine.Port.Fragment).

// fragments are a flow's connections whose packets may be fragmented.
type fragments struct {
	qps  int
	was  bool // some were: then a machine knows better than the system what the path carries
	mode link.Fragmentation
}

// A followed is what is done about the path for a connection, as its machine wants it.
type followed struct {
	fragmented bool   // the flow's packets may be fragmented for it
	passes     uint16 // what the device remembers of Passes
}

// followPath follows what q's machine has found out about the path.
func (t *flowTable) followPath(now time.Duration, q *QP) {
	if q.passes = q.Passes; q.passes != 0 {
		t.lane.dev.paths.learn(now, q)
	}
	if q.Fragment != q.fragmented {
		t.fragment(q, q.Fragment)
	}
}

// fragment lets the flow's packets be fragmented for q, or not any longer. The mode is the flow's, so that packets
// of all its connections leave in one batch.
func (t *flowTable) fragment(q *QP, on bool) {
	q.fragmented = on
	if on {
		q.flow.fragments.qps++
		q.flow.fragments.was = true
	} else {
		q.flow.fragments.qps--
	}
	t.setFragments(q.flow)
}

func (t *flowTable) setFragments(f *txFlow) {
	switch x := &f.fragments; {
	case x.qps > 0:
		t.setMode(f, link.Fragmented)
	case x.was:
		t.setMode(f, link.Probed)
	}
}

func (t *flowTable) setMode(f *txFlow, m link.Fragmentation) {
	l := t.lane
	if c := l.network.caps.Fragmenter; c != nil && m != f.fragments.mode && !f.offline {
		l.network.flush()
		c.Fragment(f.Link, m)
		f.fragments.mode = m
	}
}

// probe sends a packet that must not be fragmented.
func (t *flowTable) probe(now time.Duration, q *QP, f *txFlow, r route, o *machine.Out, class frame.Class) int {
	o.Probe = false
	t.setMode(f, link.Probed)
	n := r.Send(now, q, f, o, class, 1)
	t.lane.network.flush()
	t.setFragments(f)
	return n
}

// tooLong tells the machines of queue pairs that the host did not send their packets for their length.
func (t *network) tooLong(d reason.Detail) {
	if d.Reason != reason.PathMTU || t.flow.fragments.qps > 0 {
		return
	}
	now := t.lane.dev.clock()
	for _, q := range t.qps {
		if m, ok := q.m.(machine.PathHandler); ok && q.flow == t.flow {
			m.TooLong(now)
			t.lane.tasks.Set(&q.entry, q.deadline())
		}
	}
}
