// Package stream connects queue pairs by streams of bytes, as iWARP does over TCP. It
// owns the streams and listeners of a lane: it reads and writes the connections of a
// link.Streams for the machines of package iwarp. It holds no
// protocol rule, takes no lock and starts no goroutine: everything here belongs to the
// holder of the lane (Host.Do).
package stream

import (
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/reason"
)

const (
	// scratchLen is how many bytes one turn of a stream reads at most beside those that
	// go to their place at once.
	scratchLen = 64 << 10

	// askAfter is the number of turns of streams that are known to be readable after
	// which the link is asked for others, which would starve else.
	askAfter = 16

	// keptArenas is how many buffers to build FPDUs in a lane keeps that no stream holds.
	keptArenas = 4
)

// A Host is the lane of a Set.
type Host interface {
	// Do runs f with the lane held, and then sends what is to be sent. It returns f's
	// error, or why the lane can do nothing any more. The other methods are called with
	// the lane held.
	Do(f func(now time.Duration) error) error

	// Received notes that the link gave n bytes.
	Received(n int)

	// Refuse counts and traces a refusal.
	Refuse(qpn uint32, d reason.Detail)

	// Faults has the rules of faults of the device, nil if there are none. Injected counts and traces a hit.
	Faults() *faults.Injector
	Injected(qpn uint32, v *faults.Verdict)

	// StreamQP returns the queue pair of a number, nil if there is none.
	StreamQP(qpn uint32) *QP
}

// A Config is what a Set is made of.
type Config struct {
	Host  Host
	Link  link.Streams
	Tasks *schedule.Queue

	// NoCRC and Markers are wanted of each connection: no CRCs if the peer wants none
	// either, and markers in what the peer sends.
	NoCRC, Markers bool
}

// A reader is a stream or listener that has something to read.
type reader interface {
	serve(now time.Duration)
}

// A Set is the streams and listeners of a lane. It reads them in turn, a bounded amount
// at a time. What they send leaves when it is their turn among the lane's tasks.
type Set struct {
	Config

	pool    iwarp.Pool
	out     iwarp.Out
	scratch []byte

	list   []link.Readiness
	turns  schedule.FIFO[reader]
	served int // turns since the link was asked

	away      func(qpn uint32) Away // nil if all queue pairs are this process's
	open      map[*Stream]struct{}
	listeners map[*Listener]struct{}
}

// New makes a set without streams.
func New(c Config) *Set {
	return &Set{
		Config: c, scratch: make([]byte, scratchLen), list: make([]link.Readiness, 128),
		open: make(map[*Stream]struct{}), listeners: make(map[*Listener]struct{}),
	}
}

// Pending reports whether a stream or listener is known to be readable.
func (s *Set) Pending() bool { return s.turns.Len() > 0 }

// Receive lets one readable stream or listener read, and reports whether there was one.
func (s *Set) Receive(now time.Duration) bool {
	if s.served++; !s.Pending() || s.served > askAfter {
		s.served = 0
		s.ask(now)
	}
	if !s.Pending() {
		return false
	}
	s.turns.Pop().serve(now)
	return true
}

// ask takes note of what has become ready.
func (s *Set) ask(now time.Duration) {
	n, err := s.Link.Ready(s.list)
	if err != nil {
		return
	}
	for i := range s.list[:n] {
		r := &s.list[i]
		switch x := r.Owner.(type) {
		case *Stream:
			x.becameReady(now, r)
		case *Listener:
			x.becameReady()
		}
		r.Owner = nil
	}
}

// Close ends every stream and listener.
func (s *Set) Close(now time.Duration) {
	for x := range s.listeners {
		x.close()
	}
	for c := range s.open {
		c.handler = nil
		c.leave(now)
		c.pump(now)
		c.end(false)
	}
}

// Count returns how many streams and listeners exist, including streams that only wait
// for their peer's end.
func (s *Set) Count() (streams, listeners int) { return len(s.open), len(s.listeners) }
