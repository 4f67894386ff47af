package comparison

import (
	"fmt"
	"slices"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A Load is the traffic of the hosts. Pairs are host numbers, sender and receiver.
type Load struct {
	Name    string
	Streams [][2]int // each keeps Depth messages of 64 KiB outstanding, by WRITE
	Probes  [][2]int // each sends a message of 64 bytes by SEND every Interval
	Warm    time.Duration
	Measure time.Duration
}

// The parameters of loads.
const (
	Message  = 64 << 10
	Depth    = 4
	Probe    = 64
	Interval = 10 * time.Microsecond

	probeDepth = 256
)

// A Result is the result of a load.
type Result struct {
	Median, P99 time.Duration // of the probes, from post to arrival
	Rate        float64       // arrived bits per second in all streams
	Fair        float64       // Jain's index of the streams
	Drops       int           // packets dropped by full queues, since the start
}

// A stream is a connection with messages of 64 KiB.
type stream struct {
	from, to *end
	done     int
	pending  int
}

// A probe is a connection with short messages.
type probe struct {
	from, to *end
	next     time.Duration
	posted   []time.Duration // posting times of messages that have not arrived
	pending  int             // posted and not completed
}

// A run is a running load.
type run struct {
	w       *world
	streams []*stream
	probes  []*probe
	delays  []time.Duration
	err     error
}

// Run runs a load with a protocol.
func Run(kind Protocol, p *Parameters, l *Load) (Result, error) {
	w, err := newWorld(kind, p, Message)
	if err != nil {
		return Result{}, err
	}
	r := &run{w: w}
	for _, pair := range l.Streams {
		a, b, err := w.connect(pair[0], pair[1], Depth)
		if err != nil {
			return Result{}, err
		}
		r.streams = append(r.streams, &stream{from: a, to: b})
	}
	for i, pair := range l.Probes {
		a, b, err := w.connect(pair[0], pair[1], probeDepth)
		if err != nil {
			return Result{}, err
		}
		x := &probe{from: a, to: b, next: w.net.Clock() + time.Duration(i)*Interval/time.Duration(len(l.Probes))}
		for range probeDepth {
			x.receive(r)
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
	r.delays = r.delays[:0]
	r.until(r.w.net.Clock() + l.Measure)
	x := Result{Drops: r.w.drops()}
	shares := make([]float64, len(r.streams))
	for i, s := range r.streams {
		shares[i] = float64(s.done-done[i]) * Message * 8 / l.Measure.Seconds()
		x.Rate += shares[i]
	}
	x.Fair = congestion.Jain(shares)
	if len(r.delays) > 0 {
		slices.Sort(r.delays)
		x.Median, x.P99 = r.delays[len(r.delays)/2], r.delays[len(r.delays)*99/100]
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

func (r *run) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// poll returns the completions of a queue.
func (r *run) poll(cq *adapter.CQ, list []queue.CQE) []queue.CQE {
	list = list[:rig.Poll(cq, list)]
	for _, c := range list {
		if c.Status != queue.Success {
			r.fail(fmt.Errorf("at %v: %+v", r.w.net.Clock(), c))
		}
	}
	return list
}

func (s *stream) step(r *run) {
	var list [2 * Depth]queue.CQE
	n := len(r.poll(s.from.cq, list[:]))
	s.done, s.pending = s.done+n, s.pending-n
	for ; s.pending < Depth; s.pending++ {
		r.fail(rig.PostSend(s.from.qp, rig.Send{
			Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: regionAt, Length: Message, LKey: s.from.region.Key}},
			Addr: regionAt, RKey: s.to.region.Key,
		}))
	}
}

func (p *probe) receive(r *run) {
	r.fail(rig.PostRecv(p.to.qp.Recv, 0, memory.SGE{Addr: regionAt, Length: Probe, LKey: p.to.region.Key}))
}

func (p *probe) step(r *run) {
	var list [2 * Depth]queue.CQE
	now := r.w.net.Clock()
	for range r.poll(p.to.cq, list[:]) {
		r.delays = append(r.delays, now-p.posted[0])
		p.posted = p.posted[1:]
		p.receive(r)
	}
	p.pending -= len(r.poll(p.from.cq, list[:]))
	if now < p.next {
		return
	}
	p.next += Interval
	if p.pending == probeDepth { // nothing has arrived for a long time
		return
	}
	p.pending++
	p.posted = append(p.posted, now)
	r.fail(rig.PostSend(p.from.qp, rig.Send{
		Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: regionAt, Length: Probe, LKey: p.from.region.Key}},
	}))
}
