package message

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

// An end is a worker with its owner. Frames wait until the world delivers them.
type end struct {
	w        *Worker
	world    *world
	peer     *Peer // the connection to the other end
	other    *end
	out      [][]byte
	fetches  []fetch
	stores   []*store
	admitted map[uint32]*Receive
	rails    *Rails // nil if the connection has one rail
	wires    []wire // to the other end
	exposed  map[uint32]*Send
	key      uint32

	ended     map[any]error // ended operations
	sends     []*Send
	receives  []*Receive
	claimed   []*Message
	delivered map[uint32]bool // messages of the other end that were received

	frame    []byte // being delivered
	held     []*active
	handled  int // active messages of the other end that have arrived
	actives  []*Send
	rejected map[uint32]error // by number of actives

	streamed []byte // bytes of the stream that were sent
	read     int    // bytes of the other end's stream that were read
	reading  []*Receive
	chunks   []*Chunk
}

// A store is a write to the other end's memory.
type store struct {
	s       *Send
	to      []Segment
	ordered bool // it was written at once
}

type fetch struct {
	r    *Receive
	from []Segment
}

type world struct {
	again   int // number of reconnected rails
	rng     *rand.Rand
	ends    [2]*end
	batches int
	err     error
}

func (w *world) failf(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, a...)
	}
}

func (e *end) Transmit(p *Peer, h *Header, payload [][]byte) {
	if p.err != nil {
		e.world.failf("frame to a peer that has failed")
	}
	if e.rails != nil {
		e.rails.Send(h, payload)
		return
	}
	b := make([]byte, HeaderLen)
	h.Put(b)
	if h.kind == kindBatch {
		e.world.batches++
	}
	if b = append(b, slices.Concat(payload...)...); e.other != nil && len(b) > e.other.w.config.FrameLen() {
		e.world.failf("frame of %d bytes", len(b))
	}
	e.out = append(e.out, b)
}

func (e *end) Expose(_ *Peer, s *Send, list []Segment) ([]Segment, error) {
	e.key++
	e.exposed[e.key] = s
	for range e.peer.rails {
		for i, b := range s.Data {
			if len(b) > 0 {
				list = append(list, Segment{uint64(i), e.key, len(b)})
			}
		}
	}
	return list, nil
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

func (e *end) Fetch(_ *Peer, r *Receive, from []Segment) {
	e.fetches = append(e.fetches, fetch{r, from})
}

// Writes chooses either way.
func (e *end) Writes(*Peer) bool { return e.world.rng != nil && e.world.rng.IntN(3) == 0 }

func (e *end) Admit(_ *Peer, r *Receive, length int, list []Segment) ([]Segment, error) {
	e.key++
	e.admitted[e.key] = r
	for range e.peer.rails {
		left := length
		for i, b := range r.Buffer {
			if n := min(len(b), left); n > 0 {
				list = append(list, Segment{uint64(i), e.key, n})
				left -= n
			}
		}
	}
	return list, nil
}

func (e *end) Store(_ *Peer, s *Send, to []Segment) bool {
	x := &store{s: s, to: slices.Clone(to), ordered: e.rails == nil && e.world.rng.IntN(2) == 0}
	e.stores = append(e.stores, x)
	if x.ordered {
		e.write(x)
	}
	return x.ordered
}

// write writes the bytes of a message.
func (e *end) write(x *store) {
	all := slices.Concat(x.s.Data...)
	for _, to := range x.to[:len(x.to)/e.peer.rails] {
		r := e.other.admitted[to.Key]
		if r == nil {
			e.world.failf("write to memory that is not open")
			return
		}
		all = all[copy(r.Buffer[to.Address][:to.Length], all):]
	}
	if len(all) > 0 {
		e.world.failf("%d bytes are not written", len(all))
	}
}

// store ends one of the writes.
func (e *end) store() {
	if len(e.stores) == 0 {
		return
	}
	i := e.world.rng.IntN(len(e.stores))
	x := e.stores[i]
	e.stores = slices.Delete(e.stores, i, i+1)
	if !x.ordered {
		e.write(x)
	}
	e.w.Stored(e.peer, x.s)
}

func (e *end) over(op any, err error) {
	if _, twice := e.ended[op]; twice {
		e.world.failf("an operation ends twice, with %v", err)
	}
	e.ended[op] = err
}

func (e *end) Sent(s *Send, err error) { e.over(s, err) }

// Received checks a message: the bytes are correct, and it comes once, to a receive that
// matches its tag.
func (e *end) Received(r *Receive, i Info, err error) {
	e.over(r, err)
	for k, x := range e.admitted {
		if x == r {
			delete(e.admitted, k)
		}
	}
	if j := slices.Index(e.reading, r); j >= 0 {
		e.reading = slices.Delete(e.reading, j, j+1)
		if j > 0 && err != ErrCanceled && r.Length > 0 {
			e.world.failf("receives of a stream end in another order")
		}
		if err == nil && r.Length > i.Length && (r.All || i.Length == 0) {
			e.world.failf("receive of %d bytes of a stream ends with %d", r.Length, i.Length)
		}
		e.readBytes(slices.Concat(r.Buffer...)[:i.Length])
		return
	}
	if err != nil {
		return
	}
	got := slices.Concat(r.Buffer...)[:i.Length]
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
	case !bytes.Equal(slices.Concat(s.Data...), got) || s.Tag != i.Tag:
		e.world.failf("message %d arrives with other bytes", n)
	case (s.Tag^r.Tag)&r.Mask != 0:
		e.world.failf("message with tag %d for a receive of %d, mask %x", s.Tag, r.Tag, r.Mask)
	case e.delivered[n]:
		e.world.failf("message %d is received twice", n)
	}
	e.delivered[n] = true
}

// pieces divides bytes into a few pieces, some of them empty.
func (w *world) pieces(b []byte) [][]byte {
	var list [][]byte
	for range w.rng.IntN(4) {
		n := w.rng.IntN(len(b) + 1)
		list = append(list, b[:n])
		b = b[n:]
	}
	return append(list, b)
}

// message returns a message whose first four bytes are its number.
func (e *end) message(n int, tag uint64) *Send {
	b := make([]byte, 4+n)
	for i := range b {
		b[i] = byte(e.world.rng.Uint32())
	}
	binary.BigEndian.PutUint32(b, uint32(len(e.sends)))
	s := &Send{Tag: tag, Data: e.world.pieces(b), Length: len(b)}
	e.sends = append(e.sends, s)
	return s
}

func (e *end) send(n int, tag uint64, sync bool) {
	s := e.message(n, tag)
	s.Sync = sync
	e.w.Send(e.peer, s)
}

// buffer returns a receive that matches everything.
func (e *end) buffer(n int) *Receive {
	r := &Receive{Buffer: e.world.pieces(make([]byte, n)), Length: n}
	e.receives = append(e.receives, r)
	return r
}

// deliver delivers the oldest frame to the other end.
func (e *end) deliver() {
	if e.rails != nil {
		e.deliverRail()
		return
	}
	if len(e.out) == 0 {
		return
	}
	b := e.out[0]
	e.out = e.out[1:]
	for last := b; e.world.rng != nil && len(e.out) > 0 && Joins(last, e.out[0]) && len(b)+len(e.out[0]) <= e.other.w.config.FrameLen() && e.world.rng.IntN(2) == 0; {
		last = e.out[0]
		b = append(b, last...)
		e.out = e.out[1:]
	}
	e.arrive(b)
}

// arrive delivers a frame to the other end.
func (e *end) arrive(b []byte) {
	o := e.other
	o.frame = b
	if err := o.w.Arrive(o.peer, b); err != nil {
		e.world.failf("%v", err)
	}
	if !slices.ContainsFunc(o.held, func(x *active) bool { return &x.frame[0] == &b[0] }) {
		clear(b) // it belongs to the owner again
	}
}

// fetch ends one of the reads.
func (e *end) fetch() {
	if len(e.fetches) == 0 {
		return
	}
	i := e.world.rng.IntN(len(e.fetches))
	f := e.fetches[i]
	e.fetches = slices.Delete(e.fetches, i, i+1)
	var all []byte
	for _, x := range f.from[:len(f.from)/e.peer.rails] {
		s := e.other.exposed[x.Key]
		if s == nil || len(s.Data[x.Address]) != x.Length {
			e.world.failf("read of memory that is not exposed")
			return
		}
		all = append(all, s.Data[x.Address]...)
	}
	spread(f.r.Buffer, all)
	e.w.Fetched(f.r, nil)
}

func (e *end) fail() {
	e.fetches, e.stores = nil, nil
	e.w.Fail(e.peer, errLost)
}

func (e *end) step() {
	rng := e.world.rng
	tag := rng.Uint64N(3)
	mask := []uint64{tagmatch.All, tagmatch.All, 0, 1}[rng.IntN(4)]
	size := []int{200, 200, 200, 10}[rng.IntN(4)]
	switch rng.IntN(16) {
	case 0, 1:
		e.send(rng.IntN(100), tag, rng.IntN(4) == 0)
	case 2, 3:
		r := e.buffer(size)
		r.Tag, r.Mask = tag, mask
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
			e.w.ReceiveMessage(e.buffer(size), e.claimed[0])
			e.claimed = e.claimed[1:]
		}
	case 7, 8:
		e.deliver()
	case 9:
		e.fetch()
		e.store()
	case 10, 11:
		e.sendActive(rng.IntN(100), []uint64{1, 2, unknown}[tag])
	case 12:
		e.handle(rng.IntN(2) == 0)
	case 13:
		e.stream(rng.IntN(200))
	case 14, 15:
		e.readStream()
	}
}

// drain lets everything end: both ends receive all messages.
func (w *world) drain(failed bool) {
	for round, busy := 0, 0; round < busy+100; round++ {
		for _, e := range w.ends {
			if len(e.out)+e.flying()+len(e.fetches)+len(e.stores)+len(e.held)+len(e.peer.in.chunks) > 0 {
				busy = round
			}
			e.deliver()
			e.fetch()
			e.store()
			for len(e.claimed) > 0 {
				e.w.ReceiveMessage(e.buffer(200), e.claimed[0])
				e.claimed = e.claimed[1:]
			}
			if _, ok := e.w.Probe(0, 0); ok {
				e.w.Receive(e.buffer(200))
			}
			e.handle(w.rng.IntN(2) == 0)
			e.readStream()
		}
	}
	for _, e := range w.ends {
		for _, r := range e.receives {
			if _, ended := e.ended[r]; !ended && !slices.Contains(e.reading, r) {
				e.w.Cancel(r)
			}
		}
		for len(e.reading) > 0 && w.err == nil {
			if r := e.reading[0]; !e.w.CancelStream(e.peer, r) {
				e.reading = e.reading[1:]
				if !r.All { // with All it waits for bytes that are never sent
					w.failf("a receive of a stream never ends")
				}
				e.readBytes(slices.Concat(r.Buffer...)[:r.filled])
				e.ended[r] = nil
			}
		}
		for len(e.chunks) > 0 {
			e.w.ReleaseChunk(e.chunks[0])
			e.chunks = e.chunks[1:]
		}
		for _, r := range e.receives {
			if _, ok := e.ended[r]; !ok {
				w.failf("a receive never ends")
			}
		}
		for i, s := range e.sends {
			err, ok := e.ended[s]
			want := error(nil)
			if s.Class == Actives {
				want = e.rejected[binary.BigEndian.Uint32(s.Header)]
			}
			refused := s.Class == Actives && s.Tag == unknown && errors.Is(err, ErrHandler)
			if !ok || err != want && !failed && !refused {
				w.failf("message %d: ended %v, %v", i, ok, err)
			}
		}
		if len(e.admitted) > 0 {
			w.failf("%d buffers stay open", len(e.admitted))
		}
		if len(e.exposed) > 0 {
			w.failf("%d messages stay exposed", len(e.exposed))
		}
		if !failed && e.peer.credits+e.other.peer.owed != e.other.w.config.Credits {
			w.failf("%d credits and %d owed, expected %d", e.peer.credits, e.other.peer.owed, e.other.w.config.Credits)
		}
		if n := e.peer.active.credits + e.other.peer.active.owed; !failed && n != e.other.w.config.Active {
			w.failf("%d credits of active messages, expected %d", n, e.other.w.config.Active)
		}
		if sent := len(e.other.streamed); !failed && e.read != sent {
			w.failf("%d bytes of the stream arrived, expected %d", e.read, sent)
		}
		if len(e.held) > 0 || !failed && e.handled != len(e.other.actives) {
			w.failf("%d active messages of %d arrived, %d are not over", e.handled, len(e.other.actives), len(e.held))
		}
	}
}

// newEnd makes an end without a worker.
func newEnd(w *world) *end {
	return &end{
		world: w, exposed: map[uint32]*Send{}, admitted: map[uint32]*Receive{}, ended: map[any]error{}, delivered: map[uint32]bool{},
		rejected: map[uint32]error{},
	}
}

// connect makes two ends of a connection.
func (w *world) connect(configs [2]Config, rails int) {
	for i := range w.ends {
		e := newEnd(w)
		e.w = New(e, configs[i])
		e.peer = e.w.NewPeer(configs[1-i], rails)
		w.ends[i] = e
	}
	w.ends[0].other, w.ends[1].other = w.ends[1], w.ends[0]
}

// flow delivers all frames.
func (w *world) flow() {
	for len(w.ends[0].out)+len(w.ends[1].out) > 0 {
		w.ends[0].deliver()
		w.ends[1].deliver()
	}
}

// configs chooses the limits of both ends.
func (w *world) configs() (configs [2]Config) {
	for i := range configs {
		configs[i] = Config{Eager: 4 + w.rng.IntN(80), Credits: 1 + w.rng.IntN(6), Announced: 1 + w.rng.IntN(6), Active: 1 + w.rng.IntN(6), Stream: 1 + w.rng.IntN(300), Put: w.rng.IntN(2) == 0}
	}
	return configs
}

// play runs a seed, and returns the number of batches.
func play(seed uint64) (batches int, err error) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 23))}
	w.connect(w.configs(), 1)
	steps := 50 + w.rng.IntN(300)
	failAt := -1
	if w.rng.IntN(3) == 0 {
		failAt = w.rng.IntN(steps)
	}
	for i := range steps {
		if i == failAt { // the connection fails at both ends, with all operations in progress
			for _, e := range w.ends {
				e.out = nil
				e.fail()
			}
		}
		w.ends[w.rng.IntN(2)].step()
		if w.err != nil {
			return 0, fmt.Errorf("step %d: %w", i, w.err)
		}
	}
	w.drain(failAt >= 0)
	return w.batches, w.err
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
	batches := 0
	for seed := range uint64(n) {
		b, err := play(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		batches += b
	}
	if n >= 300 && batches < n/4 {
		t.Errorf("%d batches in %d seeds", batches, n)
	}
}

func FuzzArrive(f *testing.F) {
	f.Add(append([]byte{version, byte(kindBatch), 23: 2, HeaderLen - 1: 0}, make([]byte, 2*entryLen)...))
	f.Add(append([]byte{version, byte(kindBatch), 23: 1, HeaderLen - 1: 0}, []byte{12: flagSync, 15: 2, 17: 0}...))
	for k := kindEager; k < kinds; k++ {
		f.Add([]byte{version, byte(k), HeaderLen - 1: 0})
		f.Add(append([]byte{version, byte(k), 11: 2, 23: 1, HeaderLen - 1: 0}, 1, 2, 3))
		f.Add(append([]byte{version, byte(k), flagSegments, 23: 16, HeaderLen - 1: 0}, make([]byte, 16)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &world{rng: rand.New(rand.NewPCG(1, 2))}
		e := newEnd(w)
		c := Config{Eager: 64, Credits: 2, Announced: 2, Active: 2, Stream: 20}
		e.w = New(e, c)
		e.peer = e.w.NewPeer(c, 1)
		r := &Receive{Buffer: [][]byte{make([]byte, 8)}, Length: 8}
		r.Mask = tagmatch.All
		e.w.Receive(r)
		for range 3 {
			if e.w.Arrive(e.peer, b) != nil {
				break
			}
			e.handle(true)
		}
		e.w.Fail(e.peer, errLost)
		for len(e.held) > 0 {
			e.handle(false)
		}
		if _, ended := e.ended[r]; w.err != nil || e.w.Cancel(r) == ended {
			t.Errorf("%v, the receive ended: %v", w.err, ended)
		}
	})
}
