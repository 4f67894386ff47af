package relay

import (
	"math/rand/v2"
	"time"

	"softrdma/internal/eventqueue"
)

// A Config describes what one direction of a relay does to frames. Probabilities
// are from 0 to 1, per frame.
type Config struct {
	Rate      int64         `json:"bits_per_s"`    // on the wire, including Ethernet's overhead per frame
	Queue     int           `json:"queue_bytes"`   // capacity of the queue
	MarkAbove int           `json:"mark_above"`    // queue length in bytes above which ECN-capable packets are marked; 0 means never
	Delay     time.Duration `json:"delay_ns"`      // one way
	Loss      float64       `json:"loss"`          // after the queue, unrelated to congestion
	Reorder   float64       `json:"reorder"`       // the frame is delayed, others overtake it
	ReorderBy time.Duration `json:"reorder_by_ns"` // at most
	Seed      uint64        `json:"seed"`
}

// Stats counts frames. Entered is the sum of Left, Lost, Dropped and Waiting.
type Stats struct {
	Entered   int   `json:"entered"`
	Left      int   `json:"left"`
	Lost      int   `json:"lost"`    // by Config.Loss
	Dropped   int   `json:"dropped"` // because the queue was full
	Marked    int   `json:"marked"`
	Reordered int   `json:"reordered"`
	Peak      int   `json:"peak_bytes"` // maximum length of the queue
	Bytes     int64 `json:"bytes"`      // of the frames that left
}

// Waiting returns the number of frames in transit.
func (s *Stats) Waiting() int { return s.Entered - s.Left - s.Lost - s.Dropped }

// Add adds the counts of another direction.
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

// wireOverhead is the number of bytes that Ethernet adds to a frame: preamble, frame
// check sequence and interframe gap.
const wireOverhead = 8 + 4 + 12

// A Path is one direction of a relay. It is used by one goroutine.
type Path struct {
	c       Config
	random  *rand.Rand
	busy    time.Duration // end of the transmission of all queued frames
	transit eventqueue.Queue[[]byte]
	free    [][]byte
	last    []byte // returned by Leave
	stats   Stats
	peaks   []int // maximum queue length in each interval of peakEvery
}

// peakEvery is the interval for which the maximum queue length is recorded.
const peakEvery = 10 * time.Millisecond

// NewPath returns a path without frames.
func NewPath(c Config) *Path {
	return &Path{c: c, random: rand.New(rand.NewPCG(c.Seed, 0))}
}

// Stats returns the counts so far.
func (p *Path) Stats() Stats { return p.stats }

// Enter copies a frame into the path. The time must not be before that of the
// previous call.
func (p *Path) Enter(now time.Duration, frame []byte) {
	p.stats.Entered++
	p.busy = max(p.busy, now)
	waiting := int((p.busy - now).Seconds() * float64(p.c.Rate) / 8)
	if waiting+len(frame) > p.c.Queue {
		p.stats.Dropped++
		return
	}
	p.peak(now, waiting+len(frame))
	p.busy += time.Duration(int64(len(frame)+wireOverhead) * 8 * int64(time.Second) / p.c.Rate)
	if p.chance(p.c.Loss) {
		p.stats.Lost++
		return
	}
	at := p.busy + p.c.Delay
	if p.chance(p.c.Reorder) {
		p.stats.Reordered++
		at += 1 + time.Duration(p.random.Int64N(int64(max(p.c.ReorderBy, 1))))
	}
	b := append(p.buffer(), frame...)
	if p.c.MarkAbove > 0 && waiting > p.c.MarkAbove && mark(b) {
		p.stats.Marked++
	}
	p.transit.Push(at, b)
}

// Next returns the time when the next frame leaves, and reports whether there is
// one.
func (p *Path) Next() (time.Duration, bool) { return p.transit.Next() }

// Leave returns the next frame that is due to leave by now, and the time it is due,
// or nil. The frame is valid until the next call.
func (p *Path) Leave(now time.Duration) ([]byte, time.Duration) {
	if p.last != nil {
		p.free, p.last = append(p.free, p.last), nil
	}
	frame, at, ok := p.transit.Pop(now)
	if !ok {
		return nil, 0
	}
	p.last = frame
	p.stats.Left++
	p.stats.Bytes += int64(len(frame))
	return frame, at
}

// peak records the length of the queue.
func (p *Path) peak(now time.Duration, waiting int) {
	p.stats.Peak = max(p.stats.Peak, waiting)
	i := int(now / peakEvery)
	for len(p.peaks) <= i {
		p.peaks = append(p.peaks, 0)
	}
	p.peaks[i] = max(p.peaks[i], waiting)
}

// LaterPeak returns the maximum length of the queue in the second half of the
// measurement, when all senders have started.
func (p *Path) LaterPeak() (most int) {
	for _, p := range p.peaks[len(p.peaks)/2:] {
		most = max(most, p)
	}
	return most
}

// chance reports true with the given probability. It draws no random number for 0.
func (p *Path) chance(probability float64) bool {
	return probability > 0 && p.random.Float64() < probability
}

func (p *Path) buffer() []byte {
	if k := len(p.free) - 1; k >= 0 {
		b := p.free[k]
		p.free = p.free[:k]
		return b[:0]
	}
	return make([]byte, 0, 2048)
}
