package adapter

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
)

const (
	// scratchLen is what one turn of a stream reads at most beside what goes to
	// its place at once.
	scratchLen = 64 << 10

	// askAfter is after how many turns of streams that are known to be readable
	// the link is asked for others, which would starve else.
	askAfter = 16

	// keptArenas is how much memory to build FPDUs in a lane keeps that no
	// stream holds.
	keptArenas = 4
)

// A turn is somebody who has something to read.
type turn interface {
	serve(now time.Duration)
}

// streams is the part of a lane whose link carries streams: it reads them in
// turn, a bounded amount at a time. What they send leaves when it is their turn
// among the lane's queue pairs, as everything does. All of it is the lane's.
type streams struct {
	lane *lane
	link link.Streams

	pool    iwarp.Pool
	out     iwarp.Out
	scratch []byte

	list   []link.Readiness
	turns  schedule.FIFO[turn] // who is readable
	served int                 // turns since the link was asked

	open      map[*Stream]struct{}
	listeners map[*StreamListener]struct{}
}

func newStreams(l *lane, s link.Streams) *streams {
	return &streams{
		lane: l, link: s, scratch: make([]byte, scratchLen), list: make([]link.Readiness, 128),
		open: make(map[*Stream]struct{}), listeners: make(map[*StreamListener]struct{}),
	}
}

// pending tells whether somebody is known to be readable.
func (s *streams) pending() bool { return s != nil && s.turns.Len() > 0 }

// receive lets one of those that are readable read, and tells whether there was
// one.
func (s *streams) receive(now time.Duration) bool {
	if s.served++; !s.pending() || s.served > askAfter {
		s.served = 0
		s.ask(now)
	}
	if !s.pending() {
		return false
	}
	s.turns.Pop().serve(now)
	return true
}

// ask takes note of what has become ready.
func (s *streams) ask(now time.Duration) {
	n, err := s.link.Ready(s.list)
	if err != nil {
		return
	}
	for i := range s.list[:n] {
		r := &s.list[i]
		switch x := r.Owner.(type) {
		case *Stream:
			x.becameReady(now, r)
		case *StreamListener:
			x.becameReady()
		}
		r.Owner = nil
	}
}

// close ends every stream and listener: the device is.
func (s *streams) close(now time.Duration) {
	if s == nil {
		return
	}
	for x := range s.listeners {
		x.close()
	}
	for c := range s.open {
		c.handler = nil
		c.part(now)
		c.pump(now)
		c.end(false)
	}
}

// IWARP tells whether the device's queue pairs are connected by streams, as
// iWARP has it.
func (d *Device) IWARP() bool { return d.lanes[0].streams != nil }

// StreamCount tells how many streams and listeners exist, those that are only
// waiting for their peer's end included.
func (d *Device) StreamCount() (streams, listeners int) {
	l := d.lanes[0]
	if l.streams == nil {
		return 0, 0
	}
	l.Lock()
	defer l.Unlock()
	return len(l.streams.open), len(l.streams.listeners)
}

// withStreams runs f with the lane held, and then sends what is to be sent.
func (l *lane) withStreams(f func(s *streams, now time.Duration) error) error {
	if l.streams == nil {
		return fmt.Errorf("streams are iWARP's, this device speaks RoCE v2: %w", errors.ErrUnsupported)
	}
	l.Lock()
	defer l.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := l.dev.clock()
	err := f(l.streams, now)
	l.Transmit(now)
	return err
}
