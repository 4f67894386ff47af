package message

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A wire is one direction of a rail.
type wire struct {
	frames [][]byte
	cut    bool // takes no more frames
}

// lay makes the connection of two ends one of several rails.
func (w *world) lay(rails int) {
	for _, e := range w.ends {
		e.wires = make([]wire, rails)
		e.rails = NewRails(rails, func(i int, b []byte) {
			if x := &e.wires[i]; !x.cut {
				x.frames = append(x.frames, slices.Clone(b))
			}
		})
		for i := range rails {
			e.rails.Join(i)
		}
	}
}

// flying returns how many frames are on the rails.
func (e *end) flying() (n int) {
	for i := range e.wires {
		n += len(e.wires[i].frames)
	}
	return n
}

// deliverRail hands over the oldest frame of a rail to the other end.
func (e *end) deliverRail() {
	i := e.world.rng.IntN(len(e.wires))
	x := &e.wires[i]
	if len(x.frames) == 0 {
		return
	}
	b := x.frames[0]
	x.frames = x.frames[1:]
	o := e.other
	frame, down, err := o.rails.Arrive(b)
	if err != nil {
		e.world.failf("rails: %v", err)
	}
	for k := range o.wires {
		if down&(1<<k) != 0 {
			o.notice(k)
		}
	}
	if frame != nil {
		e.arrive(frame)
	}
}

// notice lets an end know that a rail is down. What arrived on it and was not taken is lost.
func (e *end) notice(rail int) {
	e.other.wires[rail].frames = nil
	e.wires[rail].cut, e.other.wires[rail].cut = true, true
	e.rails.Fail(rail)
}

// kill cuts a rail. Each direction loses the newest of its frames, perhaps none or all of them.
func (w *world) kill(rail int) {
	for _, e := range w.ends {
		x := &e.wires[rail]
		x.frames = x.frames[:w.rng.IntN(len(x.frames)+1)]
		x.cut = true
	}
}

// failures returns what happens at which step of a run: all rails but one are cut at random times, and
// both ends notice at random times, or learn it from the other.
func (w *world) failures(rails, last, steps int) map[int][]func() {
	events := map[int][]func(){}
	add := func(at int, f func()) { events[at] = append(events[at], f) }
	for i := range rails {
		if i == last {
			continue
		}
		at, first := w.rng.IntN(steps), w.rng.IntN(2)
		add(at, func() { w.kill(i) })
		add(at+w.rng.IntN(50), func() { w.ends[first].notice(i) })
		if w.rng.IntN(2) == 0 {
			add(at+w.rng.IntN(50), func() { w.ends[1-first].notice(i) })
		}
	}
	return events
}

// playRails plays a seed. Operations of all kinds end as if no rail had failed.
func playRails(seed uint64) error {
	w := &world{rng: rand.New(rand.NewPCG(seed, 31))}
	rails := 2 + w.rng.IntN(MaxRails-1)
	w.connect(w.configs(), rails)
	w.lay(rails)
	steps, last := 100+w.rng.IntN(600), w.rng.IntN(rails)
	events := w.failures(rails, last, steps)
	for i := range steps + 50 {
		for _, f := range events[i] {
			f()
		}
		e := w.ends[w.rng.IntN(2)]
		if e.step(); w.rng.IntN(2) == 0 {
			e.deliver()
		}
		if w.err != nil {
			return fmt.Errorf("step %d: %w", i, w.err)
		}
	}
	w.drain(false)
	for _, e := range w.ends {
		e.rails.Ask()
	}
	for w.ends[0].flying()+w.ends[1].flying() > 0 && w.err == nil {
		w.ends[0].deliver()
		w.ends[1].deliver()
	}
	for i, e := range w.ends {
		if n := e.rails.Last() - e.rails.Acknowledged(); n > 0 {
			w.failf("%d frames of end %d are not acknowledged", n, i)
		}
		for k := range rails {
			if !e.rails.Settled() || e.rails.Down(k) != (k != last) {
				w.failf("end %d does not know all of rail %d", i, k)
			}
		}
	}
	return w.err
}

func TestRailsLoseRepeatAndReorderNothing(t *testing.T) {
	n := *seeds
	switch {
	case n > 0:
	case testing.Short():
		n = 200
	default:
		n = 1000
	}
	for seed := range uint64(n) {
		if err := playRails(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Bytes of a peer that does not keep to the protocol are refused, and cause few frames.
func FuzzRails(f *testing.F) {
	f.Add([]byte{RailLen - 1: 0})
	f.Add([]byte{7: 1, RailLen: 5})
	f.Add([]byte{7: 2, 15: 1, 16: 3, RailLen - 1: 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		posted := 0
		r := NewRails(2, func(int, []byte) { posted++ })
		r.Join(0)
		r.Join(1)
		h := Header{kind: kindCredit}
		r.Send(&h, nil)
		for range 3 {
			before := r.got
			frame, down, err := r.Arrive(b)
			if err != nil {
				return
			}
			if (frame != nil) != (r.got == before+1) || down>>2 != 0 || r.acked > 1 {
				t.Errorf("frame %x, down %#x, got %d, acknowledged %d", frame, down, r.got, r.acked)
			}
			for i := range 2 {
				if down&(1<<i) != 0 {
					r.Fail(i)
				}
			}
		}
		if posted > 10 {
			t.Errorf("%d frames", posted)
		}
	})
}
