package comparison

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/queue"
)

// A Load is the traffic of the hosts. Pairs are host numbers, sender and receiver.
type Load struct {
	Name    string
	Streams [][2]int // each keeps Depth messages of 64 KiB outstanding, by WRITE
	Probes  [][2]int // each sends messages by SEND, at moments that do not depend on the network
	Warm    time.Duration
	Measure time.Duration

	// Of the probes. The messages of each come every Interval, or at random with that mean.
	Size     int
	Interval time.Duration
	Random   bool
}

// The parameters of streams.
const (
	Message = 64 << 10
	Depth   = 4

	probeDepth = 256 // messages of a probe that may be under way
)

// A Result is the result of a load.
type Result struct {
	Median, P99         time.Duration // of the probes, from post to arrival
	SlowMedian, SlowP99 float64       // of the probes: how many times as long as in an empty network
	Rate                float64       // arrived bits per second, in all streams and probes
	Fair                float64       // Jain's index of the streams
	Drops               int           // packets for which a switch had no room, since the start
	Pauses              uint64        // frames of switches that pause a port, since the start
}

// A channel carries messages of one size from a host to another one.
type channel interface {
	// send sends a message, unless too many are under way.
	send() (bool, error)

	// poll returns how many messages have been done since the last call: SENDs have arrived, WRITEs
	// are acknowledged.
	poll() (int, error)
}

// A stream sends as much as it can.
type stream struct {
	channel
	done, pending int
}

// A probe sends at moments that are given.
type probe struct {
	channel
	interval time.Duration
	random   *rand.Rand // nil if messages come regularly
	ideal    time.Duration
	next     time.Duration
	posted   []time.Duration // posting times of messages that have not arrived
}

// A run is a running load.
type run struct {
	w       *world
	streams []*stream
	probes  []*probe
	delays  []time.Duration
	slow    []float64
	arrived int // messages of probes
	err     error
}

// Run runs a load with a protocol.
func Run(kind Protocol, p *Parameters, l *Load) (Result, error) {
	ideals := map[int]time.Duration{} // by distance
	return start(kind, p, l, func(w *world, pair [2]int) (time.Duration, error) {
		d := w.distance(pair[0], pair[1])
		if ideals[d] == 0 {
			alone := Load{Probes: [][2]int{pair}, Size: l.Size, Interval: time.Millisecond, Measure: 3 * time.Millisecond}
			empty := *p
			empty.Loss = 0
			x, err := start(kind, &empty, &alone, func(*world, [2]int) (time.Duration, error) { return 1, nil })
			if err != nil {
				return 0, err
			}
			ideals[d] = x.Median
		}
		return ideals[d], nil
	})
}

// start runs a load. ideal returns how long a message of a probe takes in an empty network.
func start(kind Protocol, p *Parameters, l *Load, ideal func(*world, [2]int) (time.Duration, error)) (Result, error) {
	w, err := newWorld(kind, p, Message)
	if err != nil {
		return Result{}, err
	}
	r := &run{w: w}
	for _, pair := range l.Streams {
		c, err := w.connect(pair, queue.Write, Message, Depth)
		if err != nil {
			return Result{}, err
		}
		r.streams = append(r.streams, &stream{channel: c})
	}
	for i, pair := range l.Probes {
		c, err := w.connect(pair, queue.Send, l.Size, probeDepth)
		if err != nil {
			return Result{}, err
		}
		x := &probe{channel: c, interval: l.Interval, next: w.net.Clock() + time.Duration(i)*l.Interval/time.Duration(len(l.Probes))}
		if x.ideal, err = ideal(w, pair); err != nil {
			return Result{}, err
		}
		if l.Random {
			x.random = w.net.Random(7<<32 | uint64(i))
		}
		r.probes = append(r.probes, x)
	}
	w.net.Drive(r)
	return r.measure(l)
}

// measure lets the load reach a steady state, then measures.
func (r *run) measure(l *Load) (Result, error) {
	r.until(r.w.net.Clock() + l.Warm)
	done := make([]int, len(r.streams))
	for i, s := range r.streams {
		done[i] = s.done
	}
	r.delays, r.slow, r.arrived = r.delays[:0], r.slow[:0], 0
	r.until(r.w.net.Clock() + l.Measure)
	x := Result{Drops: r.w.drops(), Pauses: r.w.pauses(), Rate: float64(r.arrived*l.Size*8) / l.Measure.Seconds()}
	shares := make([]float64, len(r.streams))
	for i, s := range r.streams {
		shares[i] = float64(s.done-done[i]) * Message * 8 / l.Measure.Seconds()
		x.Rate += shares[i]
	}
	x.Fair = congestion.Jain(shares)
	if n := len(r.delays); n > 0 {
		slices.Sort(r.delays)
		slices.Sort(r.slow)
		x.Median, x.P99 = r.delays[n/2], r.delays[n*99/100]
		x.SlowMedian, x.SlowP99 = r.slow[n/2], r.slow[n*99/100]
	}
	return x, r.err
}

// Progress implements simnet.Driver: it wakes the network when a probe is due.
func (r *run) Progress() time.Duration {
	next := time.Duration(1<<63 - 1)
	for _, p := range r.probes {
		next = min(next, p.next)
	}
	return next
}

// until runs the load up to a moment.
func (r *run) until(end time.Duration) {
	for r.err == nil && r.w.net.Clock() < end {
		err := r.w.net.Run(func() bool {
			r.step()
			return r.err != nil || r.w.net.Clock() >= end
		}, end-r.w.net.Clock())
		if r.err == nil && r.w.net.Clock() < end {
			r.err = err
		}
	}
}

// step lets every program post and poll.
func (r *run) step() {
	for _, s := range r.streams {
		s.step(r)
	}
	for _, p := range r.probes {
		p.step(r)
	}
}

// do returns the result of a call of a channel, and notes its error.
func (r *run) do(n int, err error) int {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("at %v: %w", r.w.net.Clock(), err)
	}
	return n
}

// send sends a message, and reports whether it has been sent.
func (r *run) send(c channel) bool {
	sent, err := c.send()
	r.do(0, err)
	return sent && err == nil
}

func (s *stream) step(r *run) {
	n := r.do(s.poll())
	s.done, s.pending = s.done+n, s.pending-n
	for s.pending < Depth && r.send(s) {
		s.pending++
	}
}

func (p *probe) step(r *run) {
	now := r.w.net.Clock()
	for range p.arrivals(r) {
		d := now - p.posted[0]
		r.delays, r.slow = append(r.delays, d), append(r.slow, float64(d)/float64(p.ideal))
		r.arrived++
		p.posted = p.posted[1:]
	}
	if now < p.next {
		return
	}
	d := p.interval
	if p.random != nil {
		d = time.Duration(p.random.ExpFloat64() * float64(p.interval))
	}
	p.next += d
	if r.send(p) {
		p.posted = append(p.posted, now)
	}
}

// arrivals returns the number of messages that have arrived since the last call.
func (p *probe) arrivals(r *run) int {
	if len(p.posted) == 0 {
		return 0
	}
	return r.do(p.poll())
}
