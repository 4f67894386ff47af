package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"softrdma/verbs"
)

// A round is a part of a latency test: both ends know how many messages it has.
type round struct {
	op     string
	size   int
	count  int64
	source int // offset of the memory that is sent
	target int // offset of the memory that receives, at both ends
}

// latencies is the histogram of a latency test, in nanoseconds; nil records
// nothing.
type latencies = *hdrhistogram.Histogram

func newLatencies() latencies {
	return hdrhistogram.New(1, int64(100*time.Second), 3)
}

// prepare is what both ends do before a round begins.
func (s *side) prepare(r *round) error {
	if r.op == opSend {
		return s.postReceives(r, min(r.count, signalEvery))
	}
	if r.op == opWrite {
		s.buf[r.target+r.size-1] = 0
	}
	return nil
}

func (s *side) postReceives(r *round, n int64) error {
	for range n {
		if err := s.qps[0].PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(r.target, r.size)}}); err != nil {
			return err
		}
	}
	return nil
}

// ping is the client's end of a round; it records the time of each round trip.
func (s *side) ping(ctx context.Context, r *round, h latencies) error {
	t := newTurn(s, r)
	last := time.Now()
	for i := int64(1); i <= r.count; i++ {
		var err error
		switch r.op {
		case opSend:
			err = t.send(ctx, i, true)
		case opWrite:
			err = t.write(ctx, i, true)
		default:
			err = t.fetch(ctx)
		}
		if err != nil {
			return err
		}
		now := time.Now()
		if h != nil {
			h.RecordValue(int64(now.Sub(last)))
		}
		last = now
	}
	return s.reach(ctx, t.sent+t.signaled, 0)
}

// pong is the server's end of a round. The target of READs and atomics has
// nothing to answer and only makes progress.
func (s *side) pong(ctx context.Context, r *round, c *control) error {
	if !oneWay(r.op) {
		return s.serve(ctx, c)
	}
	t := newTurn(s, r)
	for i := int64(1); i <= r.count; i++ {
		var err error
		if r.op == opSend {
			err = t.send(ctx, i, false)
		} else {
			err = t.write(ctx, i, false)
		}
		if err != nil {
			return err
		}
	}
	return s.reach(ctx, t.sent+t.signaled, 0)
}

// A turn holds what the messages of one end of a round have in common.
type turn struct {
	*side
	r              *round
	wr             [1]verbs.SendWR
	recv           [1]verbs.RecvWR
	sent, received int64 // completions before the round
	signaled       int64 // requests of it that have a completion
}

func newTurn(s *side, r *round) *turn {
	t := &turn{side: s, r: r, sent: s.sent, received: s.received}
	w := &t.wr[0]
	w.RemoteAddr, w.RKey = s.remote.Addr+uint64(r.target), s.remote.RKey
	w.SGL = []verbs.SGE{s.mr.SGE(r.source, r.size)}
	switch r.op {
	case opSend:
		w.Op = verbs.OpSend
	case opWrite:
		w.Op = verbs.OpWrite
	case opRead:
		w.Op, w.Flags = verbs.OpRead, verbs.Signaled
	case opAtomic:
		w.Op, w.Flags, w.Add = verbs.OpFetchAdd, verbs.Signaled, 1
	case opSwap:
		w.Op, w.Flags = verbs.OpCompareSwap, verbs.Signaled
	}
	if oneWay(r.op) && r.size <= inlineLimit {
		w.SGL, w.Inline = nil, s.buf[r.source:r.source+r.size]
	}
	t.recv[0].SGL = []verbs.SGE{s.mr.SGE(r.target, r.size)}
	return t
}

// post posts message i, with a completion now and then and at the end. Its
// predecessors have arrived, and so their completions are not far.
func (t *turn) post(ctx context.Context, i int64) error {
	w := &t.wr[0]
	w.Flags = 0
	if i%signalEvery == 0 || i == t.r.count {
		if err := t.reach(ctx, t.sent+t.signaled-2, 0); err != nil {
			return err
		}
		w.Flags = verbs.Signaled
		t.signaled++
	}
	return t.qps[0].PostSend(t.wr[:]...)
}

// send sends message i and takes the peer's, in the order of the end's role.
func (t *turn) send(ctx context.Context, i int64, first bool) error {
	if first {
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if err := t.reach(ctx, 0, t.received+i); err != nil {
		return err
	}
	if !first {
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if i+signalEvery > t.r.count {
		return nil
	}
	return t.qps[0].PostRecv(t.recv[:]...)
}

// write writes message i to the peer's memory and awaits the peer's in its
// own. The last byte counts the messages: it is the last one to arrive.
func (t *turn) write(ctx context.Context, i int64, first bool) error {
	end := t.r.size - 1
	if first {
		t.buf[t.r.source+end] = byte(i)
		if err := t.post(ctx, i); err != nil {
			return err
		}
	}
	if err := t.awaitByte(ctx, t.r.target+end, byte(i)); err != nil || first {
		return err
	}
	t.buf[t.r.source+end] = byte(i)
	return t.post(ctx, i)
}

// fetch reads from the peer's memory, or adds to it.
func (t *turn) fetch(ctx context.Context) error {
	if err := t.qps[0].PostSend(t.wr[:]...); err != nil {
		return err
	}
	t.signaled++
	return t.reach(ctx, t.sent+t.signaled, 0)
}

// oneWay tells whether the latency of an operation is half of the round trip
// that was timed: of those in which both ends send.
func oneWay(op string) bool { return op == opSend || op == opWrite }

// A latencyResult is what a latency test found, in microseconds.
type latencyResult struct {
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

func newLatencyResult(h latencies, size int, half bool) latencyResult {
	us := float64(time.Microsecond)
	if half {
		us *= 2
	}
	return latencyResult{
		Size: size, Iterations: h.TotalCount(), Min: float64(h.Min()) / us, Max: float64(h.Max()) / us,
		Typical: float64(h.ValueAtQuantile(50)) / us, Average: h.Mean() / us, Stdev: h.StdDev() / us,
		P99: float64(h.ValueAtQuantile(99)) / us, P999: float64(h.ValueAtQuantile(99.9)) / us,
	}
}

// String is the result's row under latencyHeader.
func (r latencyResult) String() string {
	return fmt.Sprintf(" %-10d %-12d %10.2f %10.2f %12.2f %10.2f %10.2f %10.2f %10.2f",
		r.Size, r.Iterations, r.Min, r.Max, r.Typical, r.Average, r.Stdev, r.P99, r.P999)
}

var latencyHeader = fmt.Sprintf(" %-10s %-12s %10s %10s %12s %10s %10s %10s %10s",
	"#bytes", "#iterations", "t_min[us]", "t_max[us]", "t_typical[us]", "t_avg[us]", "t_stdev", "99%[us]", "99.9%[us]")
