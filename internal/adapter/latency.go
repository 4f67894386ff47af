package adapter

import (
	"time"

	"softrdma/internal/queue"
)

const (
	latencyLimit = 64   // times that a lane keeps until they are taken
	latencyDepth = 1024 // requests in a send queue of which the newest is timed

	latencyLongest = 10 * time.Second // after that another request is timed
)

// latencies are times from the doorbell of a signaled send request to its completion, of one request of a
// lane at a time. A lane has them while metrics are read: they cost other lanes a comparison for each doorbell
// and each completion.
type latencies struct {
	q     *QP           // whose request is timed, nil if none is
	left  int           // completions of the queue pair until that of the request, with it
	rung  time.Duration // at the doorbell
	taken []time.Duration
}

// posted begins to time the newest request of a queue pair whose doorbell has rung, unless another one is
// timed, or the request has no completion of its own.
func (s *latencies) posted(q *QP) {
	if s.q != nil || q.entry.Removed() || len(s.taken) == latencyLimit || !q.SQ.InPlace() || q.SQ.Len() > latencyDepth {
		return
	}
	n, last := 0, false
	for i, end := q.SQ.Consumer(), q.SQ.Producer(); i != end; i = q.SQ.Next(i) {
		if last = q.SQSigAll || q.SQ.At(i).Flags&queue.Signaled != 0; last {
			n++
		}
	}
	if last {
		s.q, s.left, s.rung = q, n, q.lane.dev.clock()
	}
}

// completed counts a completion of the queue pair whose request is timed. Those in error have no time.
func (s *latencies) completed(e *queue.CQE) {
	if s.left--; e.Status != queue.Success {
		s.q = nil
	} else if s.left == 0 {
		s.taken = append(s.taken, s.q.lane.dev.clock()-s.rung)
		s.q = nil
	}
}

// abandon ends the timing of a request that does not complete, so that others are timed.
func (s *latencies) abandon(now time.Duration) {
	if s.q != nil && now-s.rung > latencyLongest {
		s.q = nil
	}
}

// forget ends the timing of a request of a queue pair that is destroyed or reset.
func (s *latencies) forget(q *QP) {
	if s != nil && s.q == q {
		s.q = nil
	}
}

// Latencies appends the times from the doorbells of send requests to their completions since the last call,
// a sample of at most 64 for each lane, of those that take at most 10 s. The first call finds none: it begins to take them, until
// EndLatencies.
func (a *laneList) Latencies(list []time.Duration) []time.Duration {
	a.locked(func(l *lane) {
		if l.latencies == nil {
			l.latencies = new(latencies)
		}
		l.latencies.abandon(l.dev.clock())
		list = append(list, l.latencies.taken...)
		l.latencies.taken = l.latencies.taken[:0]
	})
	return list
}

// EndLatencies ends what Latencies has begun.
func (a *laneList) EndLatencies() { a.locked(func(l *lane) { l.latencies = nil }) }
