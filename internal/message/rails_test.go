package message

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A wire is one direction of a rail's newest connection.
type wire struct {
	frames [][]byte
	cut    bool // accepts no more frames
	early  bool // the receiver has not joined yet
}

// lay replaces the connection of two ends by one with several rails.
func (w *world) lay(rails int) {
	for _, e := range w.ends {
		e.wires = make([]wire, rails)
		e.rails = NewRails(rails, func(i int, b []byte) {
			if x := &e.wires[i]; !x.cut {
				x.frames = append(x.frames, slices.Clone(b))
			}
		})
		for i := range rails {
			e.rails.Join(i, 1)
		}
	}
}

// flying returns how many frames are in flight.
func (e *end) flying() (n int) {
	for i := range e.wires {
		n += len(e.wires[i].frames)
	}
	return n
}

// deliverRail delivers the oldest frame of a rail to the other end.
func (e *end) deliverRail() {
	i := e.world.rng.IntN(len(e.wires))
	x := &e.wires[i]
	if len(x.frames) == 0 || x.early {
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

// notice tells an end that a rail is down, up to the newest connection that it or the peer
// knows of. Frames that arrived on it and were not processed are lost.
func (e *end) notice(rail int) {
	e.other.wires[rail].frames = nil
	e.wires[rail].cut, e.other.wires[rail].cut = true, true
	e.rails.Fail(rail, max(e.rails.joined[rail], e.rails.KnownFailed(rail)))
}

// works reports whether a rail is connected and both ends know it.
func (w *world) works(rail int) bool {
	for _, e := range w.ends {
		if x := &e.wires[rail]; x.cut || x.early || !e.rails.Up(rail) {
			return false
		}
	}
	return true
}

// kill cuts a rail if another one works. Each direction loses a random number of its newest
// frames.
func (w *world) kill(rail int) {
	others := 0
	for i := range w.ends[0].wires {
		if i != rail && w.works(i) {
			others++
		}
	}
	if others == 0 || !w.works(rail) {
		return
	}
	for _, e := range w.ends {
		x := &e.wires[rail]
		x.frames = x.frames[:w.rng.IntN(len(x.frames)+1)]
		x.cut = true
	}
}

// connectAgain makes the first end reconnect a rail that was cut. The request or its answer
// may be lost. The returned function lets the first end join.
func (w *world) connectAgain(rail int) (join func()) {
	client, server := w.ends[0], w.ends[1]
	if !client.wires[rail].cut || client.wires[rail].early {
		return func() {}
	}
	if client.rails.Up(rail) {
		client.notice(rail)
	}
	n := client.rails.Failed(rail) + 1
	lost := w.rng.IntN(4)
	if lost == 0 {
		client.rails.Fail(rail, n)
		return func() {}
	}
	if server.rails.Up(rail) {
		server.notice(rail)
	}
	if server.rails.Fail(rail, n-1); !server.rails.Join(rail, n) { // the server does not know of this attempt
		w.failf("connection %d of rail %d cannot be joined", n, rail)
	}
	client.wires[rail], server.wires[rail] = wire{}, wire{early: true}
	w.again++
	return func() {
		server.wires[rail].early = false
		if lost == 1 {
			client.notice(rail)
			client.rails.Fail(rail, n)
		} else if !client.rails.Join(rail, n) && client.rails.KnownFailed(rail) < n {
			w.failf("connection %d of rail %d cannot be joined by the client", n, rail)
		}
	}
}

// failures returns the events of a run by step: rails are cut at random times, ends notice at
// random times or are told by the other, and the first end reconnects them.
func (w *world) failures(rails, steps int) map[int][]func() {
	events := map[int][]func(){}
	add := func(at int, f func()) { events[at] = append(events[at], f) }
	cut := func(i, end int) func() {
		return func() {
			if w.ends[end].wires[i].cut && w.ends[end].rails.Up(i) {
				w.ends[end].notice(i)
			}
		}
	}
	for i := range rails {
		for at := w.rng.IntN(steps); at < steps; at += 20 + w.rng.IntN(steps) {
			first := w.rng.IntN(2)
			add(at, func() { w.kill(i) })
			add(at+w.rng.IntN(50), cut(i, first))
			if w.rng.IntN(2) == 0 {
				add(at+w.rng.IntN(50), cut(i, 1-first))
			}
			for range w.rng.IntN(3) {
				join := func() {}
				again := at + w.rng.IntN(80)
				add(again, func() { join = w.connectAgain(i) })
				add(again+w.rng.IntN(20), func() { join(); join = func() {} })
			}
		}
		add(steps+80, cut(i, 0)) // each end notices eventually
		add(steps+80, cut(i, 1))
	}
	return events
}

// playRails runs a seed. Operations of all kinds end as if no rail had failed.
func playRails(seed uint64) (again int, err error) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 31))}
	rails := 2 + w.rng.IntN(MaxRails-1)
	w.connect(w.configs(), rails)
	w.lay(rails)
	steps := 100 + w.rng.IntN(600)
	events := w.failures(rails, steps)
	var asked [2]uint64 // newest frames whose acknowledge was requested
	for i := range steps + 101 {
		for _, f := range events[i] {
			f()
		}
		e := w.ends[w.rng.IntN(2)]
		if e.step(); w.rng.IntN(2) == 0 {
			e.deliver()
		}
		if k := w.rng.IntN(50); k < 2 {
			w.ends[k].rails.Ask()
			asked[k] = w.ends[k].rails.Last()
		}
		if w.err != nil {
			return w.again, fmt.Errorf("step %d: %w", i, w.err)
		}
	}
	w.drain(false)
	for w.ends[0].flying()+w.ends[1].flying() > 0 && w.err == nil {
		w.ends[0].deliver()
		w.ends[1].deliver()
	}
	for i, e := range w.ends {
		if n := e.rails.Acknowledged(); n < asked[i] {
			w.failf("end %d has asked for frame %d to be acknowledged, %d is", i, asked[i], n)
		}
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
			if !e.rails.Settled() || e.rails.Up(k) != e.other.rails.Up(k) || e.rails.Up(k) != w.works(k) {
				w.failf("end %d does not know all of rail %d", i, k)
			}
		}
	}
	return w.again, w.err
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
	again := 0
	for seed := range uint64(n) {
		k, err := playRails(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again += k
	}
	if again < n/2 {
		t.Errorf("%d rails were connected again in %d runs, expected more", again, n)
	}
}

// A statement of the peer about a failed connection of a rail has no effect on the next one.
func TestRailsIgnoreReportsAboutAnOldConnection(t *testing.T) {
	var sent [2][][]byte
	r := NewRails(2, func(i int, b []byte) { sent[i] = append(sent[i], slices.Clone(b)) })
	peer := NewRails(2, func(i int, b []byte) { sent[i] = append(sent[i], slices.Clone(b)) })
	for i := range 2 {
		r.Join(i, 1)
		peer.Join(i, 1)
	}
	peer.Fail(0, 1)
	stale := sent[1][0]
	r.Fail(0, 1)
	if r.Settled() {
		t.Error("the peer is taken to know of the failure before it has said so")
	}
	if r.Join(0, 1) || !r.Join(0, 2) {
		t.Error("the first connection joins again, or the second does not")
	}
	if _, down, err := r.Arrive(stale); err != nil || down != 0 || !r.Up(0) || !r.Settled() {
		t.Errorf("down %#x, %v, up %v, settled %v", down, err, r.Up(0), r.Settled())
	}
	peer.Fail(0, 2)
	if _, down, err := r.Arrive(sent[1][len(sent[1])-1]); err != nil || down != 1 || r.KnownFailed(0) != 2 {
		t.Errorf("down %#x, %v, expected the second connection of the first rail", down, err)
	}
}

// Frames whose acknowledge was requested are acknowledged, even if they waited for the window,
// or the rail that carried them and the request has failed.
func TestRailsAcknowledgeRequestedFrames(t *testing.T) {
	for _, frames := range []int{1, 3, railWindow + 1, railWindow + 40} {
		var ends [2]*Rails
		var sent [2][][]byte // rail 0 loses everything
		for i := range ends {
			ends[i] = NewRails(2, func(rail int, b []byte) {
				if rail == 1 {
					sent[i] = append(sent[i], slices.Clone(b))
				}
			})
			ends[i].Join(0, 1)
			ends[i].Join(1, 1)
		}
		for range frames {
			ends[0].Send(&Header{kind: kindCredit}, nil)
		}
		ends[0].Ask()
		ends[0].Fail(0, 1)
		for len(sent[0])+len(sent[1]) > 0 {
			for i := range sent {
				list := sent[i]
				sent[i] = nil
				for _, b := range list {
					_, down, err := ends[1-i].Arrive(b)
					if err != nil {
						t.Fatal(err)
					}
					if down != 0 {
						ends[1-i].Fail(0, 1)
					}
				}
			}
		}
		if n := ends[0].Acknowledged(); n != uint64(frames) {
			t.Errorf("%d of %d frames are acknowledged", n, frames)
		}
	}
}

// An owner that is waiting for the acknowledge may ask at each turn, and the frame of a request is a
// reason for another turn.
func TestRailsAskOnce(t *testing.T) {
	posted := 0
	r := NewRails(1, func(int, []byte) { posted++ })
	r.Join(0, 1)
	for i := 1; i <= 2; i++ {
		r.Send(&Header{kind: kindCredit}, nil)
		for range 3 {
			r.Ask()
		}
		if posted != 2*i { // each frame, and the request after it
			t.Fatalf("%d frames were posted after %d rounds, expected %d", posted, i, 2*i)
		}
	}
}

// Bytes of a peer that violates the protocol are refused, and cause few frames.
func FuzzRails(f *testing.F) {
	f.Add([]byte{RailLen - 1: 0})
	f.Add([]byte{7: 1, RailLen: 5})
	f.Add([]byte{7: 2, 15: 1, railFlags: 1, RailLen - 1: 0})
	f.Add([]byte{railFailed + 3: 1, railFailed + 7: 2, RailLen - 1: 0})
	f.Add([]byte{RailLen - 1: 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		posted := 0
		r := NewRails(2, func(int, []byte) { posted++ })
		r.Join(0, 1)
		r.Join(1, 1)
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
					r.Fail(i, r.KnownFailed(i))
				}
			}
		}
		if posted > 10 {
			t.Errorf("%d frames", posted)
		}
	})
}
