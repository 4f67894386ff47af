//go:build linux

package uverbs

import (
	"context"
	"slices"
	"time"

	"softrdma/internal/uverbs/client"
)

// idleLooks is how often WaitIdle looks in the time that it is given.
const idleLooks = 8

// WaitIdle returns when the server has had no client for a time, or when ctx ends. A process that has
// connected is a client until it ends, unless it only looks, and so is one that has a share of a device's
// address.
func (s *Server) WaitIdle(ctx context.Context, limit time.Duration) {
	t := time.NewTicker(max(limit/idleLooks, time.Millisecond))
	defer t.Stop()
	since, accepted := time.Now(), s.accepted.Load()
	for {
		if n := s.accepted.Load(); n != accepted || s.busy() {
			since, accepted = time.Now(), n
		}
		if time.Since(since) >= limit {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// busy reports whether the server has clients.
func (s *Server) busy() bool {
	s.mu.Lock()
	n := len(s.conns) + len(s.exchanges)
	s.mu.Unlock()
	stays := func(p *client.Process) bool { return !p.Looks.Load() }
	c := s.Count()
	return n+c.Files+c.Slots > 0 || slices.ContainsFunc(s.admission.Processes(), stays)
}
