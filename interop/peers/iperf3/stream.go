package iperf3

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Report is the result of a test.
type Report struct {
	Reverse bool          // the server sent
	Took    time.Duration // from the first byte to the end of the test
	Streams []Stream
}

// A Stream is the result of one data connection.
type Stream struct {
	ID       int
	Sent     int64 // bytes counted by the sender
	Received int64 // bytes counted by the receiver
}

// transfer runs the data connections of this end.
type transfer struct {
	conns  []net.Conn
	counts []atomic.Int64
	began  time.Time
	stop   atomic.Bool
	group  sync.WaitGroup
	once   sync.Once
	failed atomic.Pointer[error]
}

// start sends or receives blocks on every connection until end is called.
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

// end stops the transfer. A sending end completes the blocks it has begun to send.
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

// close stops the transfer and closes the connections.
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

// report combines the counts of both ends. If sent is set, this end (mine) is the sender.
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
