package simulate

import (
	"math"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

// A Result is what one run has shown.
type Result struct {
	Seed     uint64
	End      dcb.Time // of the run
	Messages []Message
	Streams  []Stream
	Samples  []Sample
	Failed   int // connections

	Goodput   float64 // bytes of messages that have arrived, per second
	Sent      uint64  // bytes of messages with those that were sent again
	Repeated  uint64  // that were sent again
	Received  uint64
	Packets   uint64 // that arrived at hosts
	Events    uint64
	QueuePeak int // bytes, the longest queue of a switch
	Shared    int // bytes, the least part of a switch's buffer that is not headroom
	Used      int // bytes, the greatest use of a switch's shared buffer
	Pauses    uint64
	Paused    dcb.Time // all ports
	Marked    uint64
	Storms    uint64 // that watchdogs have found
	Deadlock  int    // queues in a circle of pauses that wait for each other, at the end
	Drops     map[reason.Reason]uint64
	Reasons   map[reason.Reason]uint64
}

// A Message is a message of a run.
type Message struct {
	Traffic  int
	From, To int // hosts
	Size     int64
	Start    dcb.Time
	End      dcb.Time // when it was acknowledged; dcb.Never if it was not
	Ideal    dcb.Time // how long it takes in an empty network
}

// Slowdown returns how many times as long as in an empty network a message took.
func (m *Message) Slowdown() float64 { return float64(m.End-m.Start) / float64(m.Ideal) }

// A Stream is a stream of a run.
type Stream struct {
	Traffic  int
	From, To int     // hosts
	Rate     float64 // bytes in a second, after the warm-up
}

// A Sample is the state at a time.
type Sample struct {
	At     dcb.Time
	Queue  int       // bytes, the longest queue of a switch now
	Paused int       // ports of switches that the neighbor has paused
	Rates  []float64 // of the streams since the sample before, bytes in a second
}

// sample notes the state of the network.
func (r *run) sample(now dcb.Time) {
	r.closeBroken(now)
	x := Sample{At: now}
	r.eachPort(func(p *dcb.Port) {
		for _, i := range r.used {
			x.Queue = max(x.Queue, p.Waiting(i))
		}
		if p.Halted() != 0 {
			x.Paused++
		}
	})
	since := now - r.sampled
	r.sampled = now
	for _, s := range r.streams {
		total := s.total()
		x.Rates = append(x.Rates, float64(total-s.seen)/seconds(since))
		s.seen = total
		if s.warmAt < r.s.Warm.Time() && now >= r.s.Warm.Time() {
			s.warm, s.warmAt = total, now
		}
		if now >= s.until {
			s.stop(now)
		}
	}
	r.result.Samples = append(r.result.Samples, x)
}

func seconds(t dcb.Time) float64 { return float64(t) / float64(dcb.Second) }

// eachPort calls f with each port of a switch.
func (r *run) eachPort(f func(p *dcb.Port)) {
	net := r.h.Network()
	for i := range net.Nodes() {
		if w := net.Switch(i); w != nil {
			for p := 1; p <= w.Ports(); p++ {
				f(&w.Port(p).Port)
			}
		}
	}
}

// finish collects the result.
func (r *run) finish(now dcb.Time) {
	x := r.result
	x.End = now
	for _, s := range r.streams {
		if s.until > now {
			s.until = now
		}
		rate := 0.0
		if d := s.until - s.warmAt; d > 0 {
			rate = float64(s.total()-s.warm) / seconds(d)
		}
		x.Streams = append(x.Streams, Stream{s.traffic, s.from, s.to, rate})
		s.stop(now)
	}
	net, traffic := r.h.Network(), r.h.Traffic()
	x.Deadlock = len(net.Standstill(0).Deadlock)
	x.Sent, x.Received, x.Packets, x.Events = traffic.Sent, traffic.Received, traffic.ReceivedPackets, net.Events()
	x.Repeated, x.Drops, x.Reasons = r.h.Repeated(), r.h.Drops(), r.h.Reasons()
	if now > 0 {
		x.Goodput = float64(x.Received) / seconds(now)
	}
	r.eachPort(func(p *dcb.Port) {
		for _, i := range r.used {
			c := p.Counters(i)
			x.QueuePeak = max(x.QueuePeak, c.Peak)
			x.Pauses += c.PausesSent
			x.Paused += c.Paused + lasting(now, p, i)
			x.Marked += c.Marked
			x.Storms += c.Storms
		}
	})
	x.Shared = math.MaxInt
	for i := range net.Nodes() {
		if w := net.Switch(i); w != nil {
			b := w.Buffer()
			x.Used = max(x.Used, b.Peak)
			x.Shared = min(x.Shared, b.Shared)
			continue
		}
		for _, k := range r.used {
			h := net.Host(i)
			x.Paused += h.Counters(k).Paused + lasting(now, &h.Port, k)
		}
	}
}

// lasting returns how long a pause of a port has lasted that has not ended.
func lasting(now dcb.Time, p *dcb.Port, priority uint8) dcb.Time {
	if p.Halted()&(1<<priority) == 0 {
		return 0
	}
	return max(now-p.HaltedSince(priority), 0)
}

// Fairness returns Jain's index of the streams' rates, 1 if there are fewer than two.
func (x *Result) Fairness() float64 {
	if len(x.Streams) < 2 {
		return 1
	}
	var rates []float64
	for _, s := range x.Streams {
		rates = append(rates, s.Rate)
	}
	return congestion.Jain(rates)
}
