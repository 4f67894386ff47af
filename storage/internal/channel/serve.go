package channel

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"softrdma/rdmacm"
)

// hostShare is which part of the connections one host may have, so that it keeps out no other with
// connections on which it says nothing.
const hostShare = 4

// Serve calls serve in a goroutine for each request that reaches a listener, at most limit at a time, and
// a quarter of them for requests of one address; others are rejected. It returns when the context ends or
// the listener is closed, after all calls.
func Serve(ctx context.Context, l *rdmacm.Listener, limit int, serve func(context.Context, *rdmacm.Request)) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients := clients{limit: limit, hosts: make(map[netip.Addr]int)}
	for {
		r, err := l.Request(ctx)
		if errors.Is(err, rdmacm.ErrClosed) || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		host := r.RemoteAddr().Addr()
		if !clients.enter(host) {
			_ = r.Reject(nil) // it is no error if the peer no longer waits
			continue
		}
		all.Go(func() {
			defer clients.leave(host)
			serve(ctx, r)
		})
	}
}

// clients counts connections.
type clients struct {
	limit int

	mu    sync.Mutex
	all   int
	hosts map[netip.Addr]int
}

// enter reports whether a host may have another connection, and counts it.
func (c *clients) enter(host netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.limit || c.hosts[host] >= max(c.limit/hostShare, 1) {
		return false
	}
	c.all++
	c.hosts[host]++
	return true
}

func (c *clients) leave(host netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.hosts[host]--; c.hosts[host] == 0 {
		delete(c.hosts, host)
	}
}
