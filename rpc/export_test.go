package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"softrdma/internal/carrier"
)

var errCut = errors.New("cut by the test")

func (c *Client) link() *link { return c.current.Load() }

// CutClient breaks a connection of a client's session.
func CutClient(c *Client, i int) {
	s := c.link()
	if s == nil {
		return
	}
	s.e.Lock()
	defer s.e.Unlock()
	if i < len(s.conns) {
		s.conns[i].Fail(errCut)
	}
}

// CutServer breaks all connections of a server.
func CutServer(s *Server) {
	for _, p := range s.all() {
		p.e.Lock()
		p.e.Each(func(c *carrier.Conn) {
			if c.CM != nil {
				c.Fail(errCut)
			}
		})
		p.e.Unlock()
	}
}

// Connected waits until a client has a connection.
func Connected(c *Client) {
	for {
		s := c.link()
		s.e.Lock()
		ok := s.pick() != nil
		s.e.Unlock()
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
		s.e.Lock()
		busy := s.busy
		s.e.Unlock()
		if busy == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Connections returns how many connections a client's session has made.
func Connections(c *Client) int {
	s := c.link()
	s.e.Lock()
	defer s.e.Unlock()
	return s.e.Made()
}

// Abandon ends a client's session without telling the server.
func Abandon(c *Client) {
	s := c.link()
	s.e.Lock()
	defer s.e.Unlock()
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
	s.e.Lock()
	defer s.e.Unlock()
	x := s.pick()
	for x != nil && x.Err == nil && !x.Raw(frame) {
		s.e.Progress()
	}
	s.e.Flush()
}

// SendRawToClients sends a frame as it is to each client of a server.
func SendRawToClients(s *Server, frame []byte) {
	for _, p := range s.all() {
		p.e.Lock()
		p.e.Each(func(c *carrier.Conn) {
			for c.CM != nil && c.Err == nil && !c.Raw(frame) {
				p.e.Progress()
			}
			p.e.Flush()
		})
		p.e.Unlock()
	}
}

// Disconnected waits until a client's first connection has ended.
func Disconnected(c *Client) {
	for {
		s := c.link()
		s.e.Lock()
		s.e.Progress()
		ok := false
		s.e.Each(func(c *carrier.Conn) { ok = ok || c.Number == 1 })
		s.e.Unlock()
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
	s.e.Lock()
	defer s.e.Unlock()
	return s.busy
}

// Devices returns on how many devices a client's session has connections that work.
func Devices(c *Client) int {
	s := c.link()
	s.e.Lock()
	defer s.e.Unlock()
	on := map[*carrier.Rail]bool{}
	for _, x := range s.conns {
		if x.Err == nil {
			on[x.Rail] = true
		}
	}
	return len(on)
}

// LoseAnswer sends a copy of the request in a client's first busy slot on another connection, and makes the client
// deaf there when the server has it. Cut waits until the answer has been sent, and breaks that connection.
func LoseAnswer(c *Client, srv *Server) (cut func()) {
	s, p := c.link(), srv.all()[0]
	s.e.Lock()
	i := slices.IndexFunc(s.slots, func(x slot) bool { return x.busy })
	s.e.Unlock()
	p.e.Lock()
	t := &p.sessions[s.id].tasks[i]
	first := t.conn
	p.e.Unlock()
	until := func(ok func() bool) {
		for done := false; !done; time.Sleep(time.Millisecond) {
			p.e.Lock()
			done = ok()
			p.e.Unlock()
		}
	}

	s.e.Lock()
	x := &s.slots[i]
	other := s.conns[slices.IndexFunc(s.conns, func(c *carrier.Conn) bool { return c != x.conn })]
	x.posts++
	send(other, i, x.n, s.out.Bytes(i), x.body)
	s.e.Flush()
	s.e.Unlock()
	until(func() bool { return t.conn != first })
	s.e.Lock()
	other.Err = errCut
	s.e.Unlock()
	return func() {
		until(func() bool { return t.state == taskAnswered && t.posts == 0 })
		s.e.Lock()
		other.Err = nil
		other.Fail(errCut)
		s.e.Unlock()
	}
}
