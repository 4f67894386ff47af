package relay

import (
	"math/rand/v2"
	"time"

	"softrdma/internal/agenda"
)

// A Config is what one way of a relay does to frames. Probabilities are of 0 to
// 1 per frame.
type Config struct {
	Rate      int64         `json:"bits_per_s"`    // on the wire, with all that an Ethernet adds to a frame
	Queue     int           `json:"queue_bytes"`   // that may wait for their turn
	MarkAbove int           `json:"mark_above"`    // bytes waiting above which ECN-capable packets are marked; 0 is never
	Delay     time.Duration `json:"delay_ns"`      // one way
	Loss      float64       `json:"loss"`          // behind the queue, where an accident happens
	Reorder   float64       `json:"reorder"`       // the frame is late, others pass it
	ReorderBy time.Duration `json:"reorder_by_ns"` // at most
	Seed      uint64        `json:"seed"`
}

// Stats count frames and their fates. Entered is the sum of Left, Lost, Dropped
// and Waiting.
type Stats struct {
	Entered   int   `json:"entered"`
	Left      int   `json:"left"`
	Lost      int   `json:"lost"`    // as told
	Dropped   int   `json:"dropped"` // for want of room in the queue
	Marked    int   `json:"marked"`
	Reordered int   `json:"reordered"`
	Peak      int   `json:"peak_bytes"` // the most that waited for their turn
	Bytes     int64 `json:"bytes"`      // that left
}

// Waiting is how many frames are under way.
func (s *Stats) Waiting() int { return s.Entered - s.Left - s.Lost - s.Dropped }

// Add adds what happened on another way.
func (s *Stats) Add(o Stats) {
	s.Entered += o.Entered
	s.Left += o.Left
	s.Lost += o.Lost
	s.Dropped += o.Dropped
	s.Marked += o.Marked
	s.Reordered += o.Reordered
	s.Peak = max(s.Peak, o.Peak)
	s.Bytes += o.Bytes
}

// wireOverhead is what a frame takes on an Ethernet besides its own bytes:
// preamble, frame check sequence and gap.
const wireOverhead = 8 + 4 + 12

// A Way is one direction of a relay. It is used by one goroutine.
type Way struct {
	c      Config
	random *rand.Rand
	busy   time.Duration         // the wire is taken until then
	under  agenda.Agenda[[]byte] // way
	free   [][]byte
	last   []byte // given out by Leave
	stats  Stats
	peaks  []int // bytes that waited at most, of each peakEvery
}

// peakEvery is how finely the queue's length is remembered.
const peakEvery = 10 * time.Millisecond

// NewWay makes a way without frames.
func NewWay(c Config) *Way {
	return &Way{c: c, random: rand.New(rand.NewPCG(c.Seed, 0))}
}

// Stats are the counts so far.
func (w *Way) Stats() Stats { return w.stats }

// Enter takes a frame, which it copies. It may be given only times that do not
// go back.
func (w *Way) Enter(now time.Duration, frame []byte) {
	w.stats.Entered++
	w.busy = max(w.busy, now)
	waiting := int((w.busy - now).Seconds() * float64(w.c.Rate) / 8)
	if waiting+len(frame) > w.c.Queue {
		w.stats.Dropped++
		return
	}
	w.peak(now, waiting+len(frame))
	w.busy += time.Duration(int64(len(frame)+wireOverhead) * 8 * int64(time.Second) / w.c.Rate)
	if w.chance(w.c.Loss) {
		w.stats.Lost++
		return
	}
	at := w.busy + w.c.Delay
	if w.chance(w.c.Reorder) {
		w.stats.Reordered++
		at += 1 + time.Duration(w.random.Int64N(int64(max(w.c.ReorderBy, 1))))
	}
	b := append(w.buffer(), frame...)
	if w.c.MarkAbove > 0 && waiting > w.c.MarkAbove && mark(b) {
		w.stats.Marked++
	}
	w.under.Add(at, b)
}

// Next is when the next frame leaves, false where none is under way.
func (w *Way) Next() (time.Duration, bool) { return w.under.Next() }

// Leave gives the next frame that leaves by now and when it should have left,
// or nil. The frame is good until the next call.
func (w *Way) Leave(now time.Duration) ([]byte, time.Duration) {
	if w.last != nil {
		w.free, w.last = append(w.free, w.last), nil
	}
	frame, at, ok := w.under.Take(now)
	if !ok {
		return nil, 0
	}
	w.last = frame
	w.stats.Left++
	w.stats.Bytes += int64(len(frame))
	return frame, at
}

// peak takes note of so many bytes that wait.
func (w *Way) peak(now time.Duration, waiting int) {
	w.stats.Peak = max(w.stats.Peak, waiting)
	i := int(now / peakEvery)
	for len(w.peaks) <= i {
		w.peaks = append(w.peaks, 0)
	}
	w.peaks[i] = max(w.peaks[i], waiting)
}

// LaterPeak is how many bytes waited at most in the later half of the time in
// which frames came: after all senders have started.
func (w *Way) LaterPeak() (most int) {
	for _, p := range w.peaks[len(w.peaks)/2:] {
		most = max(most, p)
	}
	return most
}

// chance draws whether something of this probability happens. Nothing is drawn
// for what never happens.
func (w *Way) chance(p float64) bool { return p > 0 && w.random.Float64() < p }

func (w *Way) buffer() []byte {
	if k := len(w.free) - 1; k >= 0 {
		b := w.free[k]
		w.free = w.free[:k]
		return b[:0]
	}
	return make([]byte, 0, 2048)
}
