package streams

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A queue is a listener with the connections and the errors of a channel.
type queue struct {
	results chan any
	closed  chan struct{}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case r := <-q.results:
		if err, ok := r.(error); ok {
			return nil, err
		}
		return r.(net.Conn), nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	select {
	case <-q.closed:
	default:
		close(q.closed)
	}
	return nil
}

func (q *queue) Addr() net.Addr { return nil }

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	const limit, all = 2, 8
	q := &queue{make(chan any, all), make(chan struct{})}
	for range all {
		_, there := net.Pipe()
		q.results <- there
	}
	var now, most, served atomic.Int32
	done := make(chan struct{})
	go func() {
		defer q.Close()
		for range all {
			<-done
		}
	}()
	err := Serve(t.Context(), q, limit, func(context.Context, net.Conn) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		served.Add(1)
		done <- struct{}{}
		now.Add(-1)
	})
	if err != nil || served.Load() != all || most.Load() > limit {
		t.Errorf("%d connections, %d at a time, %v", served.Load(), most.Load(), err)
	}
}

func TestServeEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, x := range map[string]struct {
		results []any
		cancel  bool
		want    error
	}{
		"by its context":              {nil, true, context.Canceled},
		"by an error of the listener": {[]any{broken}, false, broken},
		"not by a shortage":           {[]any{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, broken}, false, broken},
	} {
		q := &queue{make(chan any, len(x.results)), make(chan struct{})}
		for _, r := range x.results {
			q.results <- r
		}
		ctx, cancel := context.WithCancel(t.Context())
		if x.cancel {
			cancel()
		}
		if err := Serve(ctx, q, 1, nil); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case <-q.closed:
		default:
			t.Errorf("%s: the listener is open", name)
		}
		cancel()
	}
}

// The end of the context closes connections that say nothing, also with others that wait for their place.
func TestContextEndsConnections(t *testing.T) {
	q := &queue{make(chan any, 2), make(chan struct{})}
	here, there := net.Pipe()
	_, waits := net.Pipe()
	q.results <- there
	q.results <- waits
	ctx, cancel := context.WithCancel(t.Context())
	err := Serve(ctx, q, 1, func(_ context.Context, c net.Conn) {
		cancel()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection lives on")
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := here.Read(make([]byte, 1)); err == nil {
		t.Error("the peer's end lives on")
	}
}

// A conn comes from an address.
type conn struct {
	net.Conn
	from string
}

func (c conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from)) }

// A host with silent connections leaves places to others. Those of this machine are all of one address.
func TestSilentHostLeavesPlacesToOthers(t *testing.T) {
	const limit = 8
	from := []string{
		"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5", "192.0.2.1:6", "192.0.2.1:7", "192.0.2.1:8",
		"192.0.2.2:1", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3",
	}
	q := &queue{make(chan any, len(from)), make(chan struct{})}
	for _, a := range from {
		_, there := net.Pipe()
		q.results <- conn{there, a}
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan string, len(from))
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, q, limit, func(ctx context.Context, c net.Conn) {
			served <- c.RemoteAddr().String()
			<-ctx.Done()
		})
	}()
	want := append(append([]string{}, from[:2]...), from[8:]...)
	var got []string
	for range want {
		select {
		case a := <-served:
			got = append(got, a)
		case <-time.After(10 * time.Second):
			t.Fatalf("expected connections %v, found %v", want, got)
		}
	}
	cancel()
	<-ended
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("expected connections %v, found %v", want, got)
	}
}
