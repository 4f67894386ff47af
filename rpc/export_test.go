package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"softrdma/verbs"
)

var errCut = errors.New("cut by the test")

func (c *Client) link() *link { return c.current.Load() }

// CutClient breaks a connection of a client's session.
func CutClient(c *Client, i int) {
	s := c.link()
	if s == nil {
		return
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if i < len(s.conns) {
		s.conns[i].fail(errCut)
	}
}

// CutServer breaks all connections of a server.
func CutServer(s *Server) {
	for _, p := range s.all() {
		p.e.mu.Lock()
		for _, c := range p.e.conns {
			if c.started {
				c.fail(errCut)
			}
		}
		p.e.mu.Unlock()
	}
}

// Connected waits until a client has a connection.
func Connected(c *Client) {
	for {
		s := c.link()
		s.e.mu.Lock()
		ok := s.pick() != nil
		s.e.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Quiet waits until no call of a client is in flight.
func Quiet(c *Client) {
	for {
		s := c.link()
		s.e.mu.Lock()
		busy := s.busy
		s.e.mu.Unlock()
		if busy == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Connections returns how many connections a client's session has made.
func Connections(c *Client) int {
	s := c.link()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return int(s.e.number)
}

// Abandon ends a client's session without telling the server.
func Abandon(c *Client) {
	s := c.link()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.fail(ErrClosed)
}

// Sessions returns how many sessions a server has.
func Sessions(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

// SendRaw sends a frame as it is, if there is a connection with room for it.
func SendRaw(c *Client, frame []byte) {
	s := c.link()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	x := s.pick()
	for x != nil && x.err == nil && (len(x.free) == 0 || !x.flow.Ready()) {
		s.e.progress()
	}
	if x == nil || x.err != nil {
		return
	}
	i := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	x.flow.Send()
	n := copy(x.note.bytes(i), frame)
	_ = x.qp.PostSend(verbs.SendWR{WRID: x.id(workNote, i), Op: verbs.OpSend, SGL: x.entry(x.note.entry(x.note.regions[0].MR, i, n))}) // a test of the peer
}

// Disconnected waits until a client's first connection has ended.
func Disconnected(c *Client) {
	for {
		s := c.link()
		s.e.mu.Lock()
		s.e.progress()
		_, ok := s.e.conns[1]
		s.e.mu.Unlock()
		if !ok {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// CheckQuery parses a query and returns an error if it was not written like that.
func CheckQuery(b []byte) error {
	q, err := parseQuery(b)
	if err != nil {
		return nil // refused
	}
	out := append([]byte{byte(q.kind), byte(len(q.codec))}, q.codec...)
	if out = append(out, q.name...); !bytes.Equal(out, b) {
		return fmt.Errorf("%x was written as %x", b, out)
	}
	return nil
}

// Busy returns how many calls of a client are in flight.
func Busy(c *Client) int {
	s := c.link()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.busy
}

// Devices returns on how many devices a client's session has connections that work.
func Devices(c *Client) int {
	s := c.link()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	on := map[*rail]bool{}
	for _, x := range s.conns {
		if x.err == nil {
			on[x.rail] = true
		}
	}
	return len(on)
}
