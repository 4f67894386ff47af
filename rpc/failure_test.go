package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/rdmacm"
	"softrdma/rpc"
)

// A ledger counts how often each request was executed.
type ledger struct {
	mu   sync.Mutex
	runs map[uint64]int
}

func (l *ledger) count(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[uint64]int{}
	}
	l.runs[id]++
}

// record answers with the body, which begins with a number, and counts it.
func (l *ledger) record(run rpc.Run) *rpc.Procedure {
	p := rpc.Func("record", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
		l.count(binary.BigEndian.Uint64(c.Body()))
		b, err := c.Reserve(len(c.Body()))
		copy(b, c.Body())
		return err
	})
	p.Run = run
	return p
}

func (l *ledger) check(t *testing.T, n uint64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range n {
		if l.runs[id] != 1 {
			t.Errorf("request %d was carried out %d times", id, l.runs[id])
		}
	}
	if len(l.runs) != int(n) {
		t.Errorf("%d requests were carried out, expected %d", len(l.runs), n)
	}
}

// A copy of a request may arrive late, on a connection that the client has given up, while the copy that it sent
// instead has arrived before on another one. The answer leaves by the connection of the copy. When that one turns
// out to be broken, the answer leaves by the other one: the client has no reason to ask again.
func TestAnswerTakesAnotherConnection(t *testing.T) {
	for name, size := range map[string]int{"near": 8, "far": 2000} {
		t.Run(name, func(t *testing.T) {
			entered, release := make(chan struct{}, 1), make(chan struct{})
			block := rpc.Func("block", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
				entered <- struct{}{}
				<-release
				_, err := c.Reserve(size)
				return err
			})
			block.Run = rpc.RunGoroutine
			w := serve(t, "", rpc.ServerConfig{Inline: 500}, block)
			c := w.dial(rpc.ClientConfig{Connections: 2, Inline: 500})
			got := make(chan error, 1)
			go func() {
				b, err := c.Method("test/block", nil).Bytes(within(t), nil, nil)
				if err == nil && len(b) != size {
					err = fmt.Errorf("an answer of %d bytes, expected %d", len(b), size)
				}
				got <- err
			}()
			<-entered
			cut := rpc.LoseAnswer(c, w.srv)
			close(release)
			cut()
			if err := <-got; err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Connections are cut at random moments, by both ends, while calls and one-way messages of all
// sizes are in flight. Each is executed once, and each call gets its own answer.
func TestCutConnectionsLoseAndRepeatNothing(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		for _, connections := range []int{1, 3} {
			var l ledger
			w := serve(t, prefix, rpc.ServerConfig{Inline: 500}, l.record(rpc.RunAuto))
			c := w.dial(rpc.ClientConfig{Connections: connections, Inline: 500, Calls: 16})
			m := c.Method("test/record", nil)
			const goroutines, calls, enough = 8, 40, 10
			var next, cuts atomic.Uint64
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					// Cuts come with calls, not with time: a slow machine gets no more of them than a fast one.
					for i := 0; i < calls || i < 100*calls && rpc.Connections(c) < enough; i++ {
						if rand.IntN(20) == 0 {
							if cuts.Add(1)%2 == 0 {
								rpc.CutClient(c, rand.IntN(connections))
							} else {
								rpc.CutServer(w.srv)
							}
						}
						body := make([]byte, 8+[]int{0, 300, 2000, 200_000}[rand.IntN(4)])
						binary.BigEndian.PutUint64(body, next.Add(1)-1)
						if rand.IntN(4) == 0 {
							if err := m.Send(within(t), body); err != nil {
								t.Errorf("send: %v", err)
							}
							continue
						}
						got, err := m.Bytes(within(t), body, nil)
						if err != nil || !bytes.Equal(got, body) {
							t.Errorf("call %d: %d bytes, %v", body[:8], len(got), err)
						}
					}
				})
			}
			all.Wait()
			if _, err := m.Bytes(within(t), binary.BigEndian.AppendUint64(nil, next.Add(1)-1), nil); err != nil {
				t.Fatal(err)
			}
			if n := rpc.Connections(c); n < enough {
				t.Errorf("%d connections: nothing was cut", n)
			}
			rpc.Quiet(c) // one-way messages
			l.check(t, next.Load())
		}
	})
}

// A handler blocks while its connection is cut: the answer arrives over the next connection.
func TestCallInFlightGetsItsAnswerOverTheNextConnection(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	w := serve(t, "", rpc.ServerConfig{}, rpc.Func("block", nil, func(_ context.Context, c *rpc.Call) error {
		runs.Add(1)
		entered <- struct{}{}
		<-release
		_, err := c.Reserve(3)
		return err
	}))
	c := w.dial(rpc.ClientConfig{})
	got := make(chan error, 1)
	go func() {
		b, err := c.Method("test/block", nil).Bytes(within(t), nil, nil)
		if err == nil && len(b) != 3 {
			err = fmt.Errorf("%d bytes", len(b))
		}
		got <- err
	}()
	<-entered
	for range 3 {
		rpc.CutClient(c, 0)
		rpc.Connected(c)
	}
	close(release)
	if err := <-got; err != nil || runs.Load() != 1 {
		t.Errorf("%v, carried out %d times", err, runs.Load())
	}
}

// A session that was idle for a long time and was cut meanwhile carries the next calls.
func TestReusedSessionLosesNoMessage(t *testing.T) {
	var l ledger
	w := serve(t, "", rpc.ServerConfig{}, l.record(rpc.RunAuto))
	c := w.dial(rpc.ClientConfig{})
	m := c.Method("test/record", nil)
	for id := range uint64(20) {
		if _, err := m.Bytes(within(t), binary.BigEndian.AppendUint64(nil, id), nil); err != nil {
			t.Fatal(err)
		}
		rpc.CutServer(w.srv)
	}
	l.check(t, 20)
}

// restart replaces the server by another one at the same address.
func (w *world) restart(methods ...*rpc.Procedure) {
	w.t.Helper()
	if err := w.srv.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start(rpc.ServerConfig{}, w.address, methods...)
}

func TestRestartedServerIsAnErrorForCallsInFlightAlone(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		entered := make(chan struct{})
		block := func() *rpc.Procedure {
			return rpc.Func("block", nil, func(ctx context.Context, _ *rpc.Call) error {
				entered <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
		}
		w := serve(t, prefix, rpc.ServerConfig{}, block(), echo(rpc.RunAuto))
		c := w.dial(rpc.ClientConfig{})
		got := make(chan error, 1)
		go func() {
			_, err := c.Method("test/block", nil).Bytes(within(t), nil, nil)
			got <- err
		}()
		<-entered
		w.restart(block(), echo(rpc.RunAuto))
		if err := <-got; !errors.Is(err, rpc.ErrOutcomeUnknown) {
			t.Errorf("call in flight: %v, expected %v", err, rpc.ErrOutcomeUnknown)
		}
		if _, err := c.Method("test/echo", nil).Bytes(within(t), []byte("x"), nil); err != nil {
			t.Errorf("call after the restart: %v", err)
		}
	})
}

func TestServerThatIsGoneEndsCallsInTime(t *testing.T) {
	entered := make(chan struct{}, 10)
	w := serve(t, "", rpc.ServerConfig{}, rpc.Func("block", nil, func(ctx context.Context, _ *rpc.Call) error {
		entered <- struct{}{}
		<-ctx.Done()
		return nil
	}))
	c := w.dial(rpc.ClientConfig{ReconnectTimeout: 300 * time.Millisecond})
	m := c.Method("test/block", nil)
	got := make(chan error, 1)
	go func() {
		_, err := m.Bytes(within(t), nil, nil)
		got <- err
	}()
	<-entered
	if err := w.srv.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, rpc.ErrOutcomeUnknown) || !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("call in flight: %v, expected %v and %v", err, rpc.ErrOutcomeUnknown, rpc.ErrUnreachable)
	}
	if _, err := m.Bytes(within(t), nil, nil); !errors.Is(err, rpc.ErrUnreachable) || errors.Is(err, rpc.ErrOutcomeUnknown) {
		t.Errorf("later call: %v, expected only %v", err, rpc.ErrUnreachable)
	}
	from := time.Now()
	var all sync.WaitGroup
	for range 50 { // together, not one after the other
		all.Go(func() {
			if _, err := m.Bytes(within(t), nil, nil); !errors.Is(err, rpc.ErrUnreachable) {
				t.Errorf("one of many calls: %v, expected %v", err, rpc.ErrUnreachable)
			}
		})
	}
	all.Wait()
	if d := time.Since(from); d > 10*time.Second {
		t.Errorf("50 calls failed after %v, expected about 300 ms", d)
	}
	if _, err := rpc.Dial(within(t), w.address.String(), rpc.ClientConfig{Device: w.dev, RemoteUDPPort: w.server.Addr().Port()}); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("dial: %v, expected %v", err, rpc.ErrUnreachable)
	}
}

// A server that is busy in handlers for many times the peer's time-out is not taken for dead, nor is
// a client that makes no call.
func TestKeepAliveKeepsBusyAndIdlePeers(t *testing.T) {
	test := func(t *testing.T, timeout time.Duration, dial func(rpc.ServerConfig, rpc.ClientConfig, ...*rpc.Procedure) *rpc.Client) {
		long := 5 * timeout / 2
		var runs atomic.Int32
		c := dial(rpc.ServerConfig{PeerTimeout: timeout}, rpc.ClientConfig{PeerTimeout: timeout}, rpc.Func("busy", nil, func(context.Context, *rpc.Call) error {
			runs.Add(1)
			time.Sleep(long)
			return nil
		}))
		m := c.Method("test/busy", nil)
		if _, err := m.Bytes(within(t), nil, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(long)
		if n := rpc.Connections(c); n != 1 || runs.Load() != 1 {
			t.Errorf("%d connections were made, %d runs, expected one of each", n, runs.Load())
		}
	}
	t.Run("RoCE", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, time.Second, func(server rpc.ServerConfig, client rpc.ClientConfig, busy ...*rpc.Procedure) *rpc.Client {
				c, _ := dialInBubble(t, server, client, busy...)
				return c
			})
		})
	})
	t.Run("iWARP", func(t *testing.T) {
		t.Parallel()
		test(t, 2*time.Second, func(server rpc.ServerConfig, client rpc.ClientConfig, busy ...*rpc.Procedure) *rpc.Client {
			return serve(t, protocols["iWARP"], server, busy...).dial(client)
		})
	})
}

// Close returns soon although handlers do not return and the peer is gone.
func TestCloseIsBounded(t *testing.T) {
	block, entered := make(chan struct{}), make(chan struct{})
	defer close(block)
	w := serve(t, "", rpc.ServerConfig{}, rpc.Func("block", nil, func(context.Context, *rpc.Call) error {
		entered <- struct{}{}
		<-block
		return nil
	}))
	c := w.dial(rpc.ClientConfig{})
	got := make(chan error, 1)
	go func() {
		_, err := c.Method("test/block", nil).Bytes(within(t), nil, nil)
		got <- err
	}()
	<-entered
	closed := make(chan error, 2)
	go func() { closed <- w.srv.Close() }()
	go func() { closed <- c.Close() }()
	for range 2 {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Close does not return")
		}
	}
	if err := <-got; !errors.Is(err, rpc.ErrClosed) && !errors.Is(err, rpc.ErrOutcomeUnknown) {
		t.Errorf("call in flight: %v", err)
	}
	if _, err := c.Method("test/block", nil).Bytes(within(t), nil, nil); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("call of a closed client: %v", err)
	}
}

func TestSessionThatDoesNotComeBackExpires(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{SessionTimeout: 50 * time.Millisecond}, echo(rpc.RunAuto))
	c := w.dial(rpc.ClientConfig{})
	rpc.Abandon(c)
	ctx := within(t)
	for rpc.Sessions(w.srv) > 0 {
		if ctx.Err() != nil {
			t.Fatal("the session is still there")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestRedirectMovesClientsAndFinishesCalls(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	who := func(name string) *rpc.Procedure {
		return rpc.Func("who", nil, func(_ context.Context, c *rpc.Call) error {
			if len(c.Body()) > 0 {
				entered <- struct{}{}
				<-release
			}
			b, err := c.Reserve(len(name))
			copy(b, name)
			return err
		})
	}
	w := serve(t, "", rpc.ServerConfig{}, who("first"))
	c := w.dial(rpc.ClientConfig{})
	first := w.srv
	m := c.Method("test/who", nil)
	got := make(chan string, 1)
	go func() {
		b, err := m.Bytes(within(t), []byte("wait"), nil)
		got <- fmt.Sprint(string(b), err)
	}()
	<-entered
	w.start(rpc.ServerConfig{}, netip.AddrPort{}, who("second"))
	if err := first.Redirect(w.address.String()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if b, err := m.Bytes(within(t), nil, nil); err != nil || string(b) != "second" {
			t.Fatalf("after the redirection %q answers, %v", b, err)
		}
	}
	close(release)
	if s := <-got; s != "first<nil>" {
		t.Errorf("the call in flight: %s", s)
	}
	if err := first.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
}

// While clients call all the time, servers are replaced: no call fails, and none runs twice.
func TestDrainingServersFailNoCall(t *testing.T) {
	var l ledger
	w := serve(t, "", rpc.ServerConfig{}, l.record(rpc.RunAuto))
	c := w.dial(rpc.ClientConfig{})
	m := c.Method("test/record", nil)
	var next atomic.Uint64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				if _, err := m.Bytes(within(t), binary.BigEndian.AppendUint64(nil, next.Add(1)-1), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		if err := w.srv.Shutdown(within(t)); err != nil {
			t.Error(err)
		}
		w.start(rpc.ServerConfig{}, w.address, l.record(rpc.RunAuto))
		if _, err := m.Bytes(within(t), binary.BigEndian.AppendUint64(nil, next.Add(1)-1), nil); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	all.Wait()
	l.check(t, next.Load())
}

func TestShutdownCutsOffCallsWhenItsContextEnds(t *testing.T) {
	entered := make(chan struct{})
	w := serve(t, "", rpc.ServerConfig{}, rpc.Func("block", nil, func(ctx context.Context, _ *rpc.Call) error {
		entered <- struct{}{}
		<-ctx.Done()
		return nil
	}))
	c := w.dial(rpc.ClientConfig{ReconnectTimeout: time.Millisecond})
	go func() { _, _ = c.Method("test/block", nil).Bytes(within(t), nil, nil) }()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, expected %v", err, context.DeadlineExceeded)
	}
}

// A peer that is not of package rpc is a named error at both ends.
func TestOtherProgramsAreRefused(t *testing.T) {
	var refused atomic.Pointer[error]
	w := serve(t, "", rpc.ServerConfig{Refused: func(_ netip.AddrPort, err error) { refused.Store(&err) }})
	d := rdmacm.Dialer{Device: w.dev, RemoteUDPPort: w.server.Addr().Port()}
	for _, c := range []struct {
		private string
		want    error
	}{{"something else", rpc.ErrPeer}, {"softrdma rpc\x09", rpc.ErrVersion}, {"softrdma rpc\x02\x00", rpc.ErrProtocol}} {
		d.Param.PrivateData = []byte(c.private)
		var rejected *rdmacm.RejectedError
		if _, err := d.Dial(within(t), w.address.String()); !errors.As(err, &rejected) {
			t.Fatalf("%q: %v, expected a rejection", c.private, err)
		}
		for refused.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		if err := *refused.Swap(nil); !errors.Is(err, c.want) {
			t.Errorf("%q: the server reports %v, expected %v", c.private, err, c.want)
		}
	}
}

func TestServersOfOthersAreRefused(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{})
	at := netip.AddrPortFrom(w.server.Addr().Addr(), 0)
	for _, c := range []struct {
		private string
		accept  bool
		want    error
	}{{"hello", true, rpc.ErrPeer}, {"hello", false, rpc.ErrPeer}, {"softrdma rpc\x09", false, rpc.ErrVersion}, {"softrdma rpc\x09", true, rpc.ErrVersion}} {
		l, err := rdmacm.Listen(at.String(), rdmacm.ListenConfig{Device: w.server})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			r, err := l.Request(within(t))
			if err != nil {
				return
			}
			if !c.accept {
				_ = r.Reject([]byte(c.private))
			} else if conn, err := r.Accept(within(t), rdmacm.ConnParam{PrivateData: []byte(c.private)}); err == nil {
				<-conn.Done()
				_ = conn.Close()
			}
		}()
		_, err = rpc.Dial(within(t), l.Addr().String(), rpc.ClientConfig{Device: w.dev, RemoteUDPPort: w.server.Addr().Port()})
		if !errors.Is(err, c.want) {
			t.Errorf("%q: %v, expected %v", c.private, err, c.want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
