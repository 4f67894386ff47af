// Package streams accepts connections of TCP and of Unix sockets, for the parts of storage that do not
// use RDMA.
package streams

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// retryTime is the time before the next attempt to accept a connection when the system had no memory or
// no descriptor for it.
const retryTime = 50 * time.Millisecond

// Serve calls serve in a goroutine for each connection of a listener, at most limit at a time; others
// wait. It closes the connections and the listener. When ctx ends, or when the listener is closed, it
// returns the cause after all calls.
func Serve(ctx context.Context, l net.Listener, limit int, serve func(context.Context, net.Conn)) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	places := make(chan struct{}, limit)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c, err := accept(ctx, l)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if c != nil {
				c.Close()
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			defer func() { <-places }()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			serve(ctx, c)
		})
	}
}

// accept accepts a connection. Clients can make the system run out of what it needs for one, so it then
// tries again.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for {
		c, err := l.Accept()
		if !scarce(err) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryTime):
		}
	}
}

func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
