package iperf3

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Report is what a test gave.
type Report struct {
	Reverse bool          // the server sent
	Took    time.Duration // from the first byte to the end of the test
	Streams []Stream
}

// A Stream is what a data connection carried.
type Stream struct {
	ID       int
	Sent     int64 // bytes, as the sender counted
	Received int64 // bytes, as the receiver counted
}

// transfer is the running data connections of this end.
type transfer struct {
	conns  []net.Conn
	counts []atomic.Int64
	began  time.Time
	stop   atomic.Bool
	group  sync.WaitGroup
	once   sync.Once
	failed atomic.Pointer[error]
}

// start lets the connections send or receive blocks until end.
func start(conns []net.Conn, send bool, block int) *transfer {
	t := &transfer{conns: conns, counts: make([]atomic.Int64, len(conns)), began: time.Now()}
	for i, c := range conns {
		t.group.Go(func() {
			buf := make([]byte, block)
			do := c.Read
			if send {
				do = c.Write
			}
			for !t.stop.Load() {
				n, err := do(buf)
				t.counts[i].Add(int64(n))
				if err != nil {
					if !t.stop.Load() {
						t.failed.CompareAndSwap(nil, &err)
					}
					return
				}
			}
		})
	}
	return t
}

// end stops the connections. Where this end sends, it lets the blocks under
// way go out first.
func (t *transfer) end(send bool) {
	t.once.Do(func() {
		t.stop.Store(true)
		limit := time.Now()
		if send {
			limit = limit.Add(timeLimit)
		}
		for _, c := range t.conns {
			c.SetDeadline(limit)
		}
		t.group.Wait()
	})
}

// close ends the connections for good.
func (t *transfer) close() (err error) {
	t.end(false)
	for _, c := range t.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (t *transfer) results(took time.Duration) results {
	r := results{}
	for i := range t.counts {
		r.Streams = append(r.Streams, streamResult{ID: streamID(i), Bytes: t.counts[i].Load(), End: took.Seconds()})
	}
	return r
}

// report joins what both ends counted; mine is the sender's when sent.
func report(reverse, sent bool, took time.Duration, mine, theirs results) (Report, error) {
	r := Report{Reverse: reverse, Took: took}
	if len(mine.Streams) != len(theirs.Streams) {
		return r, errors.New("iperf3: the ends disagree on the number of streams")
	}
	for i, m := range mine.Streams {
		s := Stream{ID: m.ID, Sent: m.Bytes, Received: theirs.Streams[i].Bytes}
		if !sent {
			s.Sent, s.Received = s.Received, s.Sent
		}
		r.Streams = append(r.Streams, s)
	}
	return r, nil
}
