package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/rpc"
)

func fails(code rpc.Code, message string) *rpc.Procedure {
	return rpc.Func("fail", nil, func(context.Context, *rpc.Call) error { return rpc.Errorf(code, "%s", message) })
}

func TestErrorsHaveCodesAndMessages(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{}, fails(rpc.NotFound, "no such key"),
		rpc.Func("plain", nil, func(context.Context, *rpc.Call) error { return errors.New("broken") }),
		rpc.Func("panic", nil, func(context.Context, *rpc.Call) error { panic("oops") }),
		rpc.Func("code", nil, func(context.Context, *rpc.Call) error { return rpc.Aborted }),
		rpc.Unary("json", rpc.JSON, func(_ context.Context, in *point) (*point, error) { return in, nil }))
	c := w.dial(rpc.ClientConfig{})
	for _, x := range []struct {
		method string
		code   rpc.Code
		text   string
	}{
		{"test/fail", rpc.NotFound, "rpc: not found: no such key"},
		{"test/plain", rpc.Unknown, "rpc: unknown: broken"},
		{"test/panic", rpc.Internal, "rpc: internal error: test/panic panicked: oops"},
		{"test/code", rpc.Aborted, "rpc: aborted"},
	} {
		_, err := c.Method(x.method, nil).Bytes(within(t), nil, nil)
		var e *rpc.Error
		if !errors.Is(err, x.code) || !errors.As(err, &e) || e.Code != x.code || err.Error() != x.text {
			t.Errorf("%s: %v, expected %s", x.method, err, x.text)
		}
	}
	if err := c.Method("test/json", rpc.JSON).Call(within(t), []int{1}, nil); !errors.Is(err, rpc.BadBody) {
		t.Errorf("a body of another type: %v, expected %v", err, rpc.BadBody)
	}
	if err := c.Method("test/json", rpc.JSON).Call(within(t), point{}, new([]int)); !errors.Is(err, rpc.BadBody) {
		t.Errorf("a result of another type: %v, expected %v", err, rpc.BadBody)
	}
}

// What client and server do not agree on is a named error at both ends.
func TestUnknownNamesAndWrongCodecsAreErrorsAtBothEnds(t *testing.T) {
	var mu sync.Mutex
	var reported error
	w := serve(t, "", rpc.ServerConfig{Refused: func(_ netip.AddrPort, err error) {
		mu.Lock()
		defer mu.Unlock()
		reported = err
	}}, sum(rpc.Gob))
	c := w.dial(rpc.ClientConfig{})
	for _, x := range []struct {
		method string
		codec  rpc.Codec
		want   rpc.Code
	}{{"other/sum", rpc.Gob, rpc.UnknownService}, {"test/other", rpc.Gob, rpc.UnknownMethod}, {"test/sum", rpc.JSON, rpc.WrongCodec}} {
		err := c.Method(x.method, x.codec).Call(within(t), []point{}, nil)
		mu.Lock()
		if !errors.Is(err, x.want) || !errors.Is(reported, x.want) {
			t.Errorf("%s: client %v, server %v, expected %v", x.method, err, reported, x.want)
		}
		mu.Unlock()
	}
	if err := c.Method("no service", rpc.Gob).Call(within(t), nil, nil); !errors.Is(err, rpc.InvalidArgument) {
		t.Errorf("%v, expected %v", err, rpc.InvalidArgument)
	}
}

func TestBodiesThatAreTooLongAreNamed(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{MaxBody: 10_000}, echo(rpc.RunAuto), rpc.Func("long", nil, func(_ context.Context, c *rpc.Call) error {
		_, err := c.Reserve(20_000)
		return err
	}))
	c := w.dial(rpc.ClientConfig{MaxBody: 12_000})
	if _, err := c.Method("test/echo", nil).Bytes(within(t), make([]byte, 10_001), nil); !errors.Is(err, rpc.TooLarge) {
		t.Errorf("request: %v, expected %v", err, rpc.TooLarge)
	}
	if _, err := c.Method("test/long", nil).Bytes(within(t), nil, nil); !errors.Is(err, rpc.TooLarge) {
		t.Errorf("answer: %v, expected %v", err, rpc.TooLarge)
	}
	if _, err := c.Method("test/echo", nil).Bytes(within(t), make([]byte, 10_000), nil); err != nil {
		t.Error(err)
	}
}

// waits is a method whose handler waits for its context and reports why that ended.
func waits(entered chan<- struct{}, ended chan<- error) *rpc.Procedure {
	return rpc.Func("wait", nil, func(ctx context.Context, _ *rpc.Call) error {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
}

func TestCancellationReachesTheHandler(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		entered, ended := make(chan struct{}), make(chan error, 1)
		w := serve(t, prefix, rpc.ServerConfig{}, waits(entered, ended), echo(rpc.RunAuto))
		c := w.dial(rpc.ClientConfig{Calls: 2})
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan error, 1)
		go func() {
			_, err := c.Method("test/wait", nil).Bytes(ctx, nil, nil)
			got <- err
		}()
		<-entered
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("client: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("handler: %v", err)
		}
		for range 10 { // its slot can be used again
			if _, err := c.Method("test/echo", nil).Bytes(within(t), nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// All calls of a session are canceled, and the handlers continue. Each of them learns of it, although their
// requests hold the server's receives and no answer gives credits.
func TestCancellationReachesHandlersThatContinue(t *testing.T) {
	const calls = 64
	entered, ended, done := make(chan struct{}), make(chan struct{}, calls), make(chan struct{})
	w := serve(t, "", rpc.ServerConfig{}, rpc.Func("wait", nil, func(ctx context.Context, _ *rpc.Call) error {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		<-done
		return nil
	}))
	defer close(done)
	c := w.dial(rpc.ClientConfig{Calls: calls})
	ctx, cancel := context.WithCancel(context.Background())
	for range calls {
		go func() { _, _ = c.Method("test/wait", nil).Bytes(ctx, nil, nil) }()
		<-entered
	}
	cancel()
	for i := range calls {
		select {
		case <-ended:
		case <-within(t).Done():
			t.Fatalf("%d handlers of %d have learned of it", i, calls)
		}
	}
}

func TestDeadlineReachesTheHandler(t *testing.T) {
	entered, ended := make(chan struct{}, 1), make(chan error, 1)
	w := serve(t, "", rpc.ServerConfig{}, waits(entered, ended),
		rpc.Func("deadline", nil, func(ctx context.Context, _ *rpc.Call) error {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Hour || time.Until(d) < time.Hour/2 {
				return rpc.Errorf(rpc.FailedPrecondition, "the deadline is %v, %v", d, ok)
			}
			return ctx.Err()
		}))
	c := w.dial(rpc.ClientConfig{})
	hour, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := c.Method("test/deadline", nil).Bytes(hour, nil, nil); err != nil {
		t.Error(err)
	}
	wait := c.Method("test/wait", nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := wait.Bytes(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("client: %v", err)
	}
	select {
	case <-entered: // unless it was too late to begin
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("handler: %v", err)
		}
	default:
	}
}

func TestOneWayMessagesAreCarriedOutOnce(t *testing.T) {
	var total atomic.Int64
	w := serve(t, "", rpc.ServerConfig{}, rpc.OneWay("add", rpc.Gob, func(_ context.Context, n *int64) error {
		total.Add(*n)
		return nil
	}))
	c := w.dial(rpc.ClientConfig{Calls: 4})
	m := c.Method("test/add", rpc.Gob)
	for i := range int64(200) {
		if err := m.Send(within(t), i); err != nil {
			t.Fatal(err)
		}
	}
	rpc.Quiet(c)
	if n := total.Load(); n != 199*200/2 {
		t.Errorf("the sum is %d", n)
	}
}

// The answer of a short call does not wait for that of a long one, even if the long one has run on
// the goroutine that receives.
func TestAnswersComeOutOfOrder(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	w := serve(t, "", rpc.ServerConfig{}, echo(rpc.RunAuto), rpc.Func("slow", nil, func(context.Context, *rpc.Call) error {
		entered <- struct{}{}
		<-release
		return nil
	}))
	c := w.dial(rpc.ClientConfig{})
	slow, quick := c.Method("test/slow", nil), c.Method("test/echo", nil)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := slow.Bytes(within(t), nil, nil); err != nil {
				t.Error(err)
			}
		})
		<-entered
		if b, err := quick.Bytes(within(t), []byte("x"), nil); err != nil || !bytes.Equal(b, []byte("x")) {
			t.Errorf("%q, %v", b, err)
		}
	}
	close(release)
	all.Wait()
}

func TestCallsBeyondTheLimitsWaitOrAreBusy(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	block := rpc.Func("block", nil, func(context.Context, *rpc.Call) error {
		entered <- struct{}{}
		<-release
		return nil
	})
	w := serve(t, "", rpc.ServerConfig{Calls: 2, Bytes: 10_000}, block)
	waiting, busy := w.dial(rpc.ClientConfig{}).Method("test/block", nil), w.dial(rpc.ClientConfig{NoWait: true}).Method("test/block", nil)
	var all sync.WaitGroup
	start := func(m *rpc.Method, n int) {
		all.Go(func() {
			if _, err := m.Bytes(within(t), make([]byte, n), nil); err != nil {
				t.Error(err)
			}
		})
	}
	start(busy, 6000)
	<-entered
	if _, err := busy.Bytes(within(t), make([]byte, 5000), nil); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("too many bytes: %v, expected %v", err, rpc.ErrBusy)
	}
	start(busy, 0)
	<-entered
	if _, err := busy.Bytes(within(t), nil, nil); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("too many calls: %v, expected %v", err, rpc.ErrBusy)
	}
	start(waiting, 6000)
	start(waiting, 0)
	<-entered
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := waiting.Bytes(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call beyond the limit: %v, expected that it waits", err)
	}
	start(waiting, 6000)
	start(waiting, 6000)
	close(release)
	<-entered
	<-entered
	all.Wait()
}
