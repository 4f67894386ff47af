package tagmatch

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var seeds = flag.Int("seeds", 0, "how many seeds to play; 0 is 1,000,000, or 5,000 in short runs")

// A model is a matcher that keeps everything in two lists.
type model struct {
	receives []*Receive
	messages []*Message
}

func (o *model) post(r *Receive) *Message {
	for i, x := range o.messages {
		if (x.Tag^r.Tag)&r.Mask == 0 {
			o.messages = slices.Delete(o.messages, i, i+1)
			return x
		}
	}
	o.receives = append(o.receives, r)
	return nil
}

func (o *model) arrive(x *Message) *Receive {
	for i, r := range o.receives {
		if (x.Tag^r.Tag)&r.Mask == 0 {
			o.receives = slices.Delete(o.receives, i, i+1)
			return r
		}
	}
	o.messages = append(o.messages, x)
	return nil
}

func (o *model) probe(tag, mask uint64) *Message {
	for _, x := range o.messages {
		if (x.Tag^tag)&mask == 0 {
			return x
		}
	}
	return nil
}

func (o *model) cancel(r *Receive) bool {
	i := slices.Index(o.receives, r)
	if i >= 0 {
		o.receives = slices.Delete(o.receives, i, i+1)
	}
	return i >= 0
}

func (o *model) remove(x *Message) bool {
	i := slices.Index(o.messages, x)
	if i >= 0 {
		o.messages = slices.Delete(o.messages, i, i+1)
	}
	return i >= 0
}

// play does the same with a matcher and the model, and returns the step at which they differ,
// or -1.
func play(seed uint64, m *Matcher) int {
	rng := rand.New(rand.NewPCG(seed, 17))
	*m = Matcher{}
	var o model
	// Few tags, so that they collide; some differ only in the upper bits, and share no bucket.
	tag := func() uint64 { return rng.Uint64N(4) | rng.Uint64N(2)<<63 }
	masks := []uint64{All, All, 0, 1, 1 << 63, 3}
	var posted []*Receive
	var arrived []*Message
	for step := range 10 + rng.IntN(60) {
		same := true
		switch rng.IntN(7) {
		case 0, 1:
			r := &Receive{Tag: tag(), Mask: masks[rng.IntN(len(masks))]}
			posted = append(posted, r)
			same = m.Post(r) == o.post(r)
		case 2, 3:
			x := &Message{Tag: tag()}
			arrived = append(arrived, x)
			same = m.Arrive(x) == o.arrive(x)
		case 4:
			t, k := tag(), masks[rng.IntN(len(masks))]
			want := o.probe(t, k)
			same = m.Probe(t, k) == want
			if rng.IntN(2) == 0 && want != nil {
				o.remove(want)
				same = same && m.Take(t, k) == want
			}
		case 5:
			if len(posted) > 0 {
				r := posted[rng.IntN(len(posted))]
				same = m.Cancel(r) == o.cancel(r) && !r.Posted()
			}
		case 6:
			if len(arrived) > 0 && rng.IntN(3) == 0 {
				x := arrived[rng.IntN(len(arrived))]
				same = m.Remove(x) == o.remove(x) && !x.Unexpected()
			}
		}
		if !same || m.Messages() != len(o.messages) || m.Receives() != len(o.receives) {
			return step
		}
	}
	return -1
}

func TestMatcherAgainstAModel(t *testing.T) {
	n := *seeds
	switch {
	case n > 0:
	case testing.Short():
		n = 5000
	default:
		n = 1_000_000
	}
	m := new(Matcher)
	for seed := range uint64(n) {
		if step := play(seed, m); step >= 0 {
			t.Fatalf("seed %d: differs from the model at step %d", seed, step)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	m := new(Matcher)
	r, x := &Receive{Tag: 1, Mask: All}, &Message{Tag: 1}
	if n := testing.AllocsPerRun(100, func() {
		if m.Post(r) != nil || m.Arrive(x) != r || m.Arrive(x) != nil || m.Post(r) != x {
			t.Fatal("not matched")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatchBehindManyReceives(b *testing.B) {
	m := new(Matcher)
	for i := range 1000 {
		m.Post(&Receive{Tag: uint64(i) + 10, Mask: All})
	}
	r, x := &Receive{Tag: 1, Mask: All}, &Message{Tag: 1}
	b.ReportAllocs()
	for b.Loop() {
		m.Post(r)
		m.Arrive(x)
	}
}
