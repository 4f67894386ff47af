package demo

import (
	"context"
	"sync/atomic"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// counter returns an atomic request on the other end's counter. The old value is
// written to this end's scratch memory.
func (d *client) counter(op verbs.Op) verbs.SendWR {
	wr := verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: d.local(d.scratch+scratchSum, 8)}
	d.remote(&wr, d.scratch+scratchSum)
	return wr
}

// add adds 1 to the counter in the other end's memory many times with several requests
// in flight, while the other processor does the same.
func (d *client) add(ctx context.Context, ready *measure.Message) error {
	wr := d.counter(verbs.OpFetchAdd)
	wr.Add = 1
	base := d.side.Sent
	for posted := int64(0); d.side.Sent-base < ready.Count; {
		for posted < ready.Count && posted-(d.side.Sent-base) < depth {
			if err := d.side.QPs[0].PostSend(wr); err != nil {
				return err
			}
			posted++
		}
		if err := d.side.Poll(ctx); err != nil {
			return err
		}
		d.bar.set(d.side.Sent - base)
	}
	return nil
}

// add adds to the counter with this processor's atomics and polls in between.
func (s *server) add(ctx context.Context, m *measure.Message) error {
	word := s.side.Word(s.scratch + scratchSum)
	for range m.Count {
		atomic.AddUint64(word, 1)
		if err := s.side.Poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// swap increments the counter by compare-and-swap: it stores the value that it read
// plus 1, unless the other end changed the counter first.
func (d *client) swap(ctx context.Context, ready *measure.Message) error {
	wr := d.counter(verbs.OpCompareSwap)
	old := d.side.Word(d.scratch + scratchSum)
	for n := int64(0); n < ready.Count; {
		wr.Swap = wr.Compare + 1
		if err := d.side.Execute(ctx, wr); err != nil {
			return err
		}
		seen := atomic.LoadUint64(old)
		if seen == wr.Compare {
			n++
			seen++
			d.bar.set(n)
		}
		wr.Compare = seen
	}
	return nil
}

// swap does the same with this processor's compare-and-swap.
func (s *server) swap(ctx context.Context, m *measure.Message) error {
	word := s.side.Word(s.scratch + scratchSum)
	for n := int64(0); n < m.Count; {
		seen := atomic.LoadUint64(word)
		if err := s.side.Poll(ctx); err != nil {
			return err
		}
		if atomic.CompareAndSwapUint64(word, seen, seen+1) {
			n++
		}
	}
	return nil
}
