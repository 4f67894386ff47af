// Package streams accepts connections of TCP and of Unix sockets, for the parts of storage that do not
// use RDMA.
package streams

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"softrdma/storage/internal/shares"
)

// retryTime is the time before the next attempt to accept a connection when the system had no memory or
// no descriptor for it.
const retryTime = 50 * time.Millisecond

// Serve calls serve in a goroutine for each connection of a listener, at most limit at a time; others
// wait. Another host has at most a quarter of them; its further ones are closed. Serve closes the
// connections and the listener. When ctx ends, or when the listener is closed, it returns the cause after
// all calls.
func Serve(ctx context.Context, l net.Listener, limit int, serve func(context.Context, net.Conn)) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	places, hosts := make(chan struct{}, limit), shares.New(limit)
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
		host, isOther := hostOf(c)
		if isOther && !hosts.Enter(host) {
			c.Close()
			<-places
			continue
		}
		all.Go(func() {
			defer func() { <-places }()
			if isOther {
				defer hosts.Leave(host)
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			serve(ctx, c)
		})
	}
}

// hostOf returns the host that a connection is from. It reports whether that is another than this one.
func hostOf(c net.Conn) (host netip.Addr, isOther bool) {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return host, false
	}
	host = a.AddrPort().Addr().Unmap()
	return host, !host.IsLoopback()
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
