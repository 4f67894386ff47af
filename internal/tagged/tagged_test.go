package tagged

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/internal/tagmatch"
)

var seeds = flag.Int("seeds", 0, "how many seeds to play; 0 is 3,000, or 300 in short runs")

var errLost = errors.New("peer lost")

// An end is a worker and what its owner does for it. Frames wait until the world delivers them.
type end struct {
	w       *Worker
	world   *world
	peer    *Peer // the connection to the other end
	other   *end
	out     [][]byte
	fetches []fetch
	exposed map[uint32]*Send
	key     uint32

	ended     map[any]error // operations that have ended
	sends     []*Send
	receives  []*Receive
	claimed   []*Message
	delivered map[uint32]bool // messages of the other end that were received
}

type fetch struct {
	r   *Receive
	key uint32
	n   int
}

type world struct {
	rng  *rand.Rand
	ends [2]*end
	err  error
}

func (w *world) failf(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, a...)
	}
}

func (e *end) Transmit(_ *Peer, h *Header, payload []byte) {
	b := make([]byte, HeaderLen, HeaderLen+len(payload))
	h.Put(b)
	e.out = append(e.out, append(b, payload...))
}

func (e *end) Expose(s *Send) (uint64, uint32, error) {
	e.key++
	e.exposed[e.key] = s
	return 7, e.key, nil
}

func (e *end) Conceal(s *Send) {
	for k, x := range e.exposed {
		if x == s {
			delete(e.exposed, k)
			return
		}
	}
	e.world.failf("concealed twice")
}

func (e *end) Fetch(_ *Peer, r *Receive, address uint64, key uint32, n int) {
	if address != 7 {
		e.world.failf("address %d", address)
	}
	e.fetches = append(e.fetches, fetch{r, key, n})
}

func (e *end) over(op any, err error) {
	if _, twice := e.ended[op]; twice {
		e.world.failf("an operation ends twice, with %v", err)
	}
	e.ended[op] = err
}

func (e *end) Sent(s *Send, err error) { e.over(s, err) }

// Received checks a message: its bytes are the sender's, and it comes once, to a receive that
// takes its tag.
func (e *end) Received(r *Receive, i Info, err error) {
	e.over(r, err)
	if err != nil {
		return
	}
	got := r.Buffer[:i.Length]
	if len(got) < 4 { // of a forged frame
		return
	}
	n := binary.BigEndian.Uint32(got)
	if e.other == nil {
		return
	}
	if int(n) >= len(e.other.sends) {
		e.world.failf("message %d was never sent", n)
		return
	}
	s := e.other.sends[n]
	switch {
	case !bytes.Equal(s.Data, got) || s.Tag != i.Tag:
		e.world.failf("message %d arrives with other bytes", n)
	case (s.Tag^r.Tag)&r.Mask != 0:
		e.world.failf("message with tag %d for a receive of %d, mask %x", s.Tag, r.Tag, r.Mask)
	case e.delivered[n]:
		e.world.failf("message %d is received twice", n)
	}
	e.delivered[n] = true
}

// send sends a message of which the first four bytes are its number.
func (e *end) send(data int, tag uint64, sync bool) {
	s := &Send{Tag: tag, Data: make([]byte, 4+data), Sync: sync}
	for i := range s.Data {
		s.Data[i] = byte(e.world.rng.Uint32())
	}
	binary.BigEndian.PutUint32(s.Data, uint32(len(e.sends)))
	e.sends = append(e.sends, s)
	e.w.Send(e.peer, s)
}

// deliver hands over the oldest frame to the other end.
func (e *end) deliver() {
	if len(e.out) == 0 {
		return
	}
	b := e.out[0]
	e.out = e.out[1:]
	if err := e.other.w.Arrive(e.other.peer, b); err != nil {
		e.world.failf("%v", err)
	}
	clear(b) // it is the owner's again
}

// fetch ends one of the reads.
func (e *end) fetch() {
	if len(e.fetches) == 0 {
		return
	}
	i := e.world.rng.IntN(len(e.fetches))
	f := e.fetches[i]
	e.fetches = slices.Delete(e.fetches, i, i+1)
	s := e.other.exposed[f.key]
	if s == nil {
		e.world.failf("read of memory that is not exposed")
		return
	}
	copy(f.r.Buffer, s.Data[:f.n])
	e.w.Fetched(f.r, nil)
}

func (e *end) fail() {
	e.fetches = nil
	e.w.Fail(e.peer, errLost)
}

func (e *end) step() {
	rng := e.world.rng
	tag := rng.Uint64N(3)
	mask := []uint64{tagmatch.All, tagmatch.All, 0, 1}[rng.IntN(4)]
	buffer := func() []byte { return make([]byte, []int{200, 200, 200, 10}[rng.IntN(4)]) }
	switch rng.IntN(10) {
	case 0, 1:
		e.send(rng.IntN(100), tag, rng.IntN(4) == 0)
	case 2, 3:
		r := &Receive{Buffer: buffer()}
		r.Tag, r.Mask = tag, mask
		e.receives = append(e.receives, r)
		e.w.Receive(r)
	case 4:
		if len(e.receives) > 0 {
			r := e.receives[rng.IntN(len(e.receives))]
			if _, over := e.ended[r]; over && e.w.Cancel(r) {
				e.world.failf("canceled a receive that had ended")
			} else if rng.IntN(4) == 0 {
				e.w.Cancel(r)
			}
		}
	case 5:
		want, ok := e.w.Probe(tag, mask)
		if m := e.w.Claim(tag, mask); (m != nil) != ok || ok && m.Info != want {
			e.world.failf("probe and claim differ")
		} else if ok {
			e.claimed = append(e.claimed, m)
		}
	case 6:
		if len(e.claimed) > 0 {
			r := &Receive{Buffer: buffer()}
			r.Mask = 0
			e.receives = append(e.receives, r)
			e.w.ReceiveMessage(r, e.claimed[0])
			e.claimed = e.claimed[1:]
		}
	case 7, 8:
		e.deliver()
	case 9:
		e.fetch()
	}
}

// drain lets everything end: both ends receive all that comes.
func (w *world) drain(failed bool) {
	for range 2000 {
		for _, e := range w.ends {
			e.deliver()
			e.fetch()
			for len(e.claimed) > 0 {
				r := &Receive{Buffer: make([]byte, 200)}
				e.receives = append(e.receives, r)
				e.w.ReceiveMessage(r, e.claimed[0])
				e.claimed = e.claimed[1:]
			}
			if _, ok := e.w.Probe(0, 0); ok {
				r := &Receive{Buffer: make([]byte, 200)}
				e.receives = append(e.receives, r)
				e.w.Receive(r)
			}
		}
	}
	for _, e := range w.ends {
		for _, r := range e.receives {
			e.w.Cancel(r)
		}
		for _, r := range e.receives {
			if _, ok := e.ended[r]; !ok {
				w.failf("a receive never ends")
			}
		}
		for i, s := range e.sends {
			err, ok := e.ended[s]
			if !ok || err != nil && !failed {
				w.failf("message %d: ended %v, %v", i, ok, err)
			}
		}
		if len(e.exposed) > 0 {
			w.failf("%d messages stay exposed", len(e.exposed))
		}
		if !failed && e.peer.credits+e.other.peer.owed != e.other.w.config.Credits {
			w.failf("%d credits and %d owed, expected %d", e.peer.credits, e.other.peer.owed, e.other.w.config.Credits)
		}
	}
}

// play plays a seed.
func play(seed uint64) error {
	w := &world{rng: rand.New(rand.NewPCG(seed, 23))}
	var configs [2]Config
	for i := range configs {
		configs[i] = Config{Eager: 4 + w.rng.IntN(80), Credits: 1 + w.rng.IntN(6), Announced: 1 + w.rng.IntN(6)}
	}
	for i := range w.ends {
		e := &end{world: w, exposed: map[uint32]*Send{}, ended: map[any]error{}, delivered: map[uint32]bool{}}
		e.w = New(e, configs[i])
		e.peer = e.w.NewPeer(configs[1-i])
		w.ends[i] = e
	}
	w.ends[0].other, w.ends[1].other = w.ends[1], w.ends[0]
	steps := 50 + w.rng.IntN(300)
	failAt := -1
	if w.rng.IntN(3) == 0 {
		failAt = w.rng.IntN(steps)
	}
	for i := range steps {
		if i == failAt { // the connection is gone for both, and what was under way with it
			for _, e := range w.ends {
				e.out = nil
				e.fail()
			}
		}
		w.ends[w.rng.IntN(2)].step()
		if w.err != nil {
			return fmt.Errorf("step %d: %w", i, w.err)
		}
	}
	w.drain(failAt >= 0)
	return w.err
}

func TestEveryOperationEndsOnceWithTheRightBytes(t *testing.T) {
	n := *seeds
	switch {
	case n > 0:
	case testing.Short():
		n = 300
	default:
		n = 3000
	}
	for seed := range uint64(n) {
		if err := play(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzArrive(f *testing.F) {
	f.Add([]byte{version, byte(kindEager), HeaderLen - 1: 0})
	f.Add(append([]byte{version, byte(kindAnnounce), HeaderLen - 1: 0}, 1, 2, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &world{}
		e := &end{world: w, exposed: map[uint32]*Send{}, ended: map[any]error{}, delivered: map[uint32]bool{}}
		e.w = New(e, Config{Eager: 64, Credits: 2, Announced: 2})
		e.peer = e.w.NewPeer(Config{Eager: 64, Credits: 2, Announced: 2})
		r := &Receive{Buffer: make([]byte, 8)}
		r.Mask = tagmatch.All
		e.w.Receive(r)
		for range 3 {
			_ = e.w.Arrive(e.peer, b)
		}
		e.w.Fail(e.peer, errLost)
	})
}
