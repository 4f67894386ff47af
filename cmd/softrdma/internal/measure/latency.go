package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"softrdma/verbs"
)

// A Round is a part of a latency test. Both ends know how many messages it has.
type Round struct {
	Op     string
	Size   int
	Count  int64
	Source int // offset of the memory to send
	Target int // offset of the memory to receive into, at both ends
}

// A Histogram holds the latencies of a test in nanoseconds. A nil one records nothing.
type Histogram = *hdrhistogram.Histogram

// NewHistogram returns an empty histogram with three significant digits.
func NewHistogram() Histogram {
	return hdrhistogram.New(1, int64(100*time.Second), 3)
}

// PrepareRound prepares an end for a round, before the peer is told to begin.
func (s *Side) PrepareRound(r *Round) error {
	if r.Op == OpSend {
		return s.postReceives(r, min(r.Count, SignalEvery))
	}
	if r.Op == OpWrite {
		s.Buf[r.Target+r.Size-1] = 0
	}
	return nil
}

func (s *Side) postReceives(r *Round, n int64) error {
	for range n {
		if err := s.QPs[0].PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.MR.SGE(r.Target, r.Size)}}); err != nil {
			return err
		}
	}
	return nil
}

// Ping is the client's end of a round. It records the time of each round trip in h.
func (s *Side) Ping(ctx context.Context, r *Round, h Histogram) error {
	t := newRoundState(s, r)
	start := time.Now()
	var last time.Duration
	for i := int64(1); i <= r.Count; i++ {
		var err error
		switch r.Op {
		case OpSend:
			err = t.exchangeSend(ctx, i, true)
		case OpWrite:
			err = t.exchangeWrite(ctx, i, true)
		default:
			err = t.fetch(ctx)
		}
		if err != nil {
			return err
		}
		now := time.Since(start) // takes half as long as time.Now
		if h != nil {
			h.RecordValue(int64(now - last))
		}
		last = now
	}
	return s.AwaitCompletions(ctx, t.sent+t.signaled, 0)
}

// Pong is the server's end of a round. As the target of READs and atomics it only
// polls.
func (s *Side) Pong(ctx context.Context, r *Round, c *Control) error {
	if !OneWay(r.Op) {
		return s.pollUntilMessage(ctx, c)
	}
	t := newRoundState(s, r)
	for i := int64(1); i <= r.Count; i++ {
		var err error
		if r.Op == OpSend {
			err = t.exchangeSend(ctx, i, false)
		} else {
			err = t.exchangeWrite(ctx, i, false)
		}
		if err != nil {
			return err
		}
	}
	return s.AwaitCompletions(ctx, t.sent+t.signaled, 0)
}

// A roundState is the state of one end during a round.
type roundState struct {
	*Side
	r              *Round
	wr             [1]verbs.SendWR
	recv           [1]verbs.RecvWR
	sent, received int64 // completions before the round
	signaled       int64 // signaled requests posted in the round
}

func newRoundState(s *Side, r *Round) *roundState {
	t := &roundState{Side: s, r: r, sent: s.Sent, received: s.Received}
	w := &t.wr[0]
	w.RemoteAddr, w.RKey = s.Remote.Addr+uint64(r.Target), s.Remote.RKey
	w.SGL = []verbs.SGE{s.MR.SGE(r.Source, r.Size)}
	switch r.Op {
	case OpSend:
		w.Op = verbs.OpSend
	case OpWrite:
		w.Op = verbs.OpWrite
	case OpRead:
		w.Op, w.Flags = verbs.OpRead, verbs.Signaled
	case OpAtomic:
		w.Op, w.Flags, w.Add = verbs.OpFetchAdd, verbs.Signaled, 1
	case OpSwap:
		w.Op, w.Flags = verbs.OpCompareSwap, verbs.Signaled
	}
	if OneWay(r.Op) && r.Size <= InlineLimit {
		w.SGL, w.Inline = nil, s.Buf[r.Source:r.Source+r.Size]
	}
	t.recv[0].SGL = []verbs.SGE{s.MR.SGE(r.Target, r.Size)}
	return t
}

// post posts message i. One in SignalEvery and the last are signaled. Earlier messages
// have already arrived, so their completions come soon.
func (t *roundState) post(ctx context.Context, i int64) error {
	w := &t.wr[0]
	w.Flags = 0
	if i%SignalEvery == 0 || i == t.r.Count {
		if err := t.AwaitCompletions(ctx, t.sent+t.signaled-2, 0); err != nil {
			return err
		}
		w.Flags = verbs.Signaled
		t.signaled++
	}
	return t.QPs[0].PostSend(t.wr[:]...)
}

// exchangeSend sends message i and receives the peer's. The client sends first.
func (t *roundState) exchangeSend(ctx context.Context, i int64, first bool) error {
	if first {
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if err := t.AwaitCompletions(ctx, 0, t.received+i); err != nil {
		return err
	}
	if !first {
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if i+SignalEvery > t.r.Count {
		return nil
	}
	return t.QPs[0].PostRecv(t.recv[:]...)
}

// exchangeWrite writes message i to the peer's memory and waits for the peer's message
// in its own. The last byte of a message arrives last and holds its number.
func (t *roundState) exchangeWrite(ctx context.Context, i int64, first bool) error {
	end := t.r.Size - 1
	if first {
		t.Buf[t.r.Source+end] = byte(i)
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if err := t.awaitByte(ctx, t.r.Target+end, byte(i)); err != nil || first {
		return err
	}
	t.Buf[t.r.Source+end] = byte(i)
	return t.post(ctx, i)
}

// fetch executes one READ or atomic operation.
func (t *roundState) fetch(ctx context.Context) error {
	if err := t.QPs[0].PostSend(t.wr[:]...); err != nil {
		return err
	}
	t.signaled++
	return t.AwaitCompletions(ctx, t.sent+t.signaled, 0)
}

// OneWay reports whether the latency of an operation is half of the measured round
// trip, which is so if both ends send.
func OneWay(op string) bool { return op == OpSend || op == OpWrite }

// A LatencyResult holds the results of a latency test, in microseconds.
type LatencyResult struct {
	Size       int     `json:"bytes"`
	Iterations int64   `json:"iterations"`
	Min        float64 `json:"min_us"`
	Max        float64 `json:"max_us"`
	Typical    float64 `json:"typical_us"` // median
	Average    float64 `json:"avg_us"`
	Stdev      float64 `json:"stdev_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p99_9_us"`
}

// NewLatencyResult returns the results of a test. If half is true, h holds round trips of
// which the latency is half.
func NewLatencyResult(h Histogram, size int, half bool) LatencyResult {
	us := float64(time.Microsecond)
	if half {
		us *= 2
	}
	return LatencyResult{
		Size: size, Iterations: h.TotalCount(), Min: float64(h.Min()) / us, Max: float64(h.Max()) / us,
		Typical: float64(h.ValueAtQuantile(50)) / us, Average: h.Mean() / us, Stdev: h.StdDev() / us,
		P99: float64(h.ValueAtQuantile(99)) / us, P999: float64(h.ValueAtQuantile(99.9)) / us,
	}
}

// String returns the result as a row below LatencyHeader.
func (r LatencyResult) String() string {
	return fmt.Sprintf(" %-10d %-12d %10.2f %10.2f %12.2f %10.2f %10.2f %10.2f %10.2f",
		r.Size, r.Iterations, r.Min, r.Max, r.Typical, r.Average, r.Stdev, r.P99, r.P999)
}

var LatencyHeader = fmt.Sprintf(" %-10s %-12s %10s %10s %12s %10s %10s %10s %10s",
	"#bytes", "#iterations", "t_min[us]", "t_max[us]", "t_typical[us]", "t_avg[us]", "t_stdev", "99%[us]", "99.9%[us]")
