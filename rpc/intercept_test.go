package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"softrdma/rpc"
)

// Interceptors of both ends surround calls and handlers, and see their errors.
func TestInterceptorsSurroundCallsAndHandlers(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
	}
	type key struct{}
	server := rpc.ServerConfig{Intercept: func(ctx context.Context, c *rpc.Call, handle func(context.Context, *rpc.Call) error) error {
		if len(c.Body()) > 3 {
			return rpc.PermissionDenied
		}
		note("server begins %s", c.Method())
		err := handle(context.WithValue(ctx, key{}, "value"), c)
		note("server ends: %v", err)
		return err
	}}
	w := serve(t, "", server, echo(rpc.RunAuto), rpc.Func("fail", nil, func(ctx context.Context, _ *rpc.Call) error {
		return &rpc.Error{Code: rpc.NotFound, Message: fmt.Sprint(ctx.Value(key{}))}
	}))
	c := w.dial(rpc.ClientConfig{Intercept: func(ctx context.Context, method string, call func(context.Context) error) error {
		note("client begins %s", method)
		err := call(ctx)
		note("client ends: %v", err)
		return err
	}})
	expect := func(want ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(seen, want) {
			t.Errorf("%q, expected %q", seen, want)
		}
		seen = nil
	}
	if got, err := c.Method("test/echo", nil).Bytes(within(t), []byte("x"), nil); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	expect("client begins test/echo", "server begins test/echo", "server ends: <nil>", "client ends: <nil>")
	_, err := c.Method("test/fail", nil).Bytes(within(t), nil, nil)
	if !errors.Is(err, rpc.NotFound) {
		t.Errorf("%v, expected %v", err, rpc.NotFound)
	}
	text := (&rpc.Error{Code: rpc.NotFound, Message: "value"}).Error()
	expect("client begins test/fail", "server begins test/fail", "server ends: "+text, "client ends: "+text)
	if _, err := c.Method("test/echo", nil).Bytes(within(t), []byte("long"), nil); !errors.Is(err, rpc.PermissionDenied) {
		t.Errorf("%v, expected %v", err, rpc.PermissionDenied)
	}
}

// A client's interceptor makes calls again, replaces errors, and refuses calls. No slot is lost.
func TestInterceptorRepeatsAndRefusesCalls(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{}, echo(rpc.RunAuto))
	refused := errors.New("refused")
	c := w.dial(rpc.ClientConfig{Calls: 2, Intercept: func(ctx context.Context, method string, call func(context.Context) error) error {
		switch method {
		case "test/none":
			return nil
		case "test/refused":
			return refused
		case "test/other": // the call fails, the method is not there
			_ = call(ctx)
			return nil
		}
		return errors.Join(call(ctx), call(ctx))
	}})
	for range 10 { // more than there are slots
		if got, err := c.Method("test/echo", nil).Bytes(within(t), []byte("x"), nil); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
		if err := c.Method("test/echo", nil).Send(within(t), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Method("test/refused", nil).Bytes(within(t), nil, nil); !errors.Is(err, refused) {
			t.Fatalf("%v, expected %v", err, refused)
		}
		for _, name := range []string{"test/none", "test/other"} {
			if _, err := c.Method(name, nil).Bytes(within(t), nil, nil); err == nil {
				t.Fatal(name, ": no error")
			}
		}
	}
}
