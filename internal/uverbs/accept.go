//go:build linux

package uverbs

import (
	"errors"
	"net"
	"time"

	"softrdma/internal/uverbs/client"
)

// connectionDescriptors is how many descriptors a connection counts for. A message brings none.
const connectionDescriptors = 1

// refusedTimeout is how long a connection that is refused may take for its one
// request.
const refusedTimeout = time.Second

// busyPause is the pause before accept tries again when no descriptor was left.
const busyPause = 50 * time.Millisecond

// accept takes connections until the listener is closed.
func (s *Server) accept() {
	defer s.runtime.Running.Done()
	for {
		c, err := s.ln.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.exhausted(err)
			if s.runtime.Context.Err() != nil {
				return
			}
			continue
		}
		s.accepted.Add(1)
		// Admission runs here and not in a goroutine, so that connections that
		// are not admitted hold no descriptors however fast they come.
		p := client.Peer(c)
		if p == nil || !s.admission.Admit(p) {
			_ = c.Close()
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			s.admission.Dismiss(p)
			return
		}
		s.conns[c] = false
		s.runtime.Running.Add(1)
		s.mu.Unlock()
		go s.serve(c, p)
	}
}

// exhausted waits after the system refused a descriptor. Programs that want a
// connection wait with it.
func (s *Server) exhausted(err error) {
	why := client.NoDescriptor(client.Errno(err))
	s.runtime.Refusals.Count(why.Detail)
	s.runtime.Refusals.Logf(why.Reason, "%v", why)
	select {
	case <-time.After(busyPause):
	case <-s.runtime.Context.Done():
	}
}

// serve answers one connection's requests, one after the other.
func (s *Server) serve(c *net.UnixConn, admitted *client.Process) {
	defer s.runtime.Running.Done()
	defer s.admission.Dismiss(admitted)
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	e, err := newExchange(c)
	if err != nil {
		return
	}
	p := admitted
	if p.Refused == nil {
		if p = s.admission.Identify(c, admitted); p == nil {
			return
		}
	}
	if p.Refused != nil {
		defer p.Close()
		_ = c.SetDeadline(time.Now().Add(refusedTimeout))
		s.converse(p, e, p.Refused)
		return
	}
	e.run(s, func() { s.converse(p, e, nil) })
}
