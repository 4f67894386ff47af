package channel

import (
	"context"
	"errors"
	"sync"

	"softrdma/rdmacm"
	"softrdma/storage/internal/shares"
)

// Serve calls serve in a goroutine for each request that reaches a listener, at most limit at a time, and
// a quarter of them for requests of one address; others are rejected. It returns when the context ends or
// the listener is closed, after all calls.
func Serve(ctx context.Context, l *rdmacm.Listener, limit int, serve func(context.Context, *rdmacm.Request)) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients := shares.New(limit)
	for {
		r, err := l.Request(ctx)
		if errors.Is(err, rdmacm.ErrClosed) || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		host := r.RemoteAddr().Addr()
		if !clients.Enter(host) {
			_ = r.Reject(nil) // it is no error if the peer no longer waits
			continue
		}
		all.Go(func() {
			defer clients.Leave(host)
			serve(ctx, r)
		})
	}
}
