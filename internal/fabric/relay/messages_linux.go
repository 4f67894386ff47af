package relay

import (
	"bytes"
	"sync"
	"sync/atomic"

	"softrdma/internal/unixmsg"
)

// inbox is how many messages of the own process wait for the relay.
const inbox = 64

// A message is one of the own process.
type message struct {
	bytes []byte
	fds   unixmsg.Descriptors
}

// messages are the two goroutines between a relay and the socket of its own process, because
// sending and receiving there wait.
type messages struct {
	conn Conn
	wake func()
	in   chan *message
	next *message    // that look returned
	eof  bool        // in has ended
	gone atomic.Bool // the own process has closed its end
	done chan struct{}
	both sync.WaitGroup

	mu    sync.Mutex // the rest
	fresh *sync.Cond
	out   []outgoing
	over  bool
	sent  uint64 // what the messages counted that were written
	busy  bool   // one is being written
}

type outgoing struct {
	bytes []byte
	fds   unixmsg.Descriptors
	after func() // may be nil
}

func (s *messages) init(r *relay) {
	s.conn, s.wake, s.in, s.done = r.conn, r.wake, make(chan *message, inbox), make(chan struct{})
	s.fresh = sync.NewCond(&s.mu)
	s.both.Go(s.read)
	s.both.Go(s.writeAll)
}

// read takes the messages of the own process.
func (s *messages) read() {
	defer s.wake()
	defer s.gone.Store(true)
	defer close(s.in)
	for {
		b, fds, err := s.conn.Receive()
		if err != nil {
			return
		}
		select {
		case s.in <- &message{bytes.Clone(b), fds}:
			s.wake()
		case <-s.done:
			fds.Close()
			return
		}
	}
}

// look returns the oldest message that was not dropped, or nil.
func (s *messages) look() *message {
	if s.next == nil && !s.eof {
		select {
		case m, ok := <-s.in:
			s.next, s.eof = m, !ok
		default:
		}
	}
	return s.next
}

// drop forgets the message that look returns. Its descriptors were taken.
func (s *messages) drop() { s.next = nil }

// write leaves a message to the writer.
func (s *messages) write(m []byte, fds []int, after func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, outgoing{m, fds, after})
	s.fresh.Signal()
}

// written returns what the messages counted that were written.
func (s *messages) written() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// writing reports whether messages wait to be written.
func (s *messages) writing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over && (s.busy || len(s.out) > 0)
}

// writeAll sends messages to the own process until the end.
func (s *messages) writeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.out) == 0 && !s.over {
			s.fresh.Wait()
		}
		if s.over {
			return
		}
		m := s.out[0]
		s.out[0] = outgoing{}
		s.out, s.busy = s.out[1:], true
		s.mu.Unlock()
		err := s.conn.Send(m.bytes, m.fds...)
		if m.after != nil {
			m.after()
		}
		s.mu.Lock()
		s.busy = false
		s.sent += messageCost(len(m.bytes))
		s.over = s.over || err != nil
		s.wake()
	}
}

// end closes the connection and waits for the goroutines.
func (s *messages) end() {
	s.mu.Lock()
	s.over = true
	s.fresh.Signal()
	s.mu.Unlock()
	close(s.done)
	_ = s.conn.Close()
	s.both.Wait()
	if s.next != nil {
		s.next.fds.Close()
	}
	for m := range s.in {
		m.fds.Close()
	}
}
