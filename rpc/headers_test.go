package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"softrdma/rpc"
)

// Headers of requests and answers arrive with bodies of all sizes and codecs, also with an error and with a
// one-way call. Codecs and bodies are as they would be without them.
func TestHeadersArriveBesideBodiesOfAllSizes(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		got := make(chan rpc.Headers, 1)
		answer := func(c *rpc.Call) {
			for name, values := range c.Headers() {
				c.AnswerHeaders().Set("re-"+name, values...)
			}
		}
		reply := rpc.Func("reply", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
			answer(c)
			b, err := c.Reserve(len(c.Body()))
			copy(b, c.Body())
			return err
		})
		w := serve(t, prefix, rpc.ServerConfig{Inline: 600}, reply, echo(rpc.RunAuto), sum(rpc.JSON),
			rpc.Func("fail", nil, func(_ context.Context, c *rpc.Call) error {
				answer(c)
				return rpc.Errorf(rpc.NotFound, "%s", strings.Repeat("x", 1000))
			}),
			rpc.Func("tell", nil, func(_ context.Context, c *rpc.Call) error { got <- c.Headers(); return nil }))
		c := w.dial(rpc.ClientConfig{Inline: 500})
		h := rpc.Headers{}
		h.Set("User", "gopher")
		h.Add("TRACE", "\x00\xff")
		h.Add("trace", "")
		var back rpc.Headers
		ctx := rpc.WithAnswer(rpc.WithHeaders(within(t), h), &back)
		want := rpc.Headers{"re-user": {"gopher"}, "re-trace": {"\x00\xff", ""}}
		for _, n := range []int{0, 1, 400, 440, 450, 460, 470, 480, 490, 500, 550, 560, 570, 580, 590, 600, 601, 70000} {
			data := random(n)
			back = nil
			body, err := c.Method("test/reply", nil).Bytes(ctx, data, nil)
			if err != nil || !bytes.Equal(body, data) || !reflect.DeepEqual(back, want) {
				t.Fatalf("%d bytes: %d bytes with %q, %v", n, len(body), back, err)
			}
		}
		back = nil
		if _, err := c.Method("test/fail", nil).Bytes(ctx, nil, nil); !errors.Is(err, rpc.NotFound) || !reflect.DeepEqual(back, want) {
			t.Errorf("%v, with %q", err, back)
		}
		if _, err := c.Method("test/echo", nil).Bytes(ctx, nil, nil); err != nil || len(back) > 0 {
			t.Errorf("an answer without headers: %q, %v", back, err)
		}
		var out point
		if err := c.Method("test/sum", rpc.JSON).Call(ctx, []point{{1, 2}}, &out); err != nil || out != (point{1, 2}) {
			t.Errorf("%v, %v", out, err)
		}
		if err := c.Method("test/tell", nil).Send(ctx, []byte("x")); err != nil {
			t.Error(err)
		}
		if seen := <-got; !reflect.DeepEqual(seen, h) {
			t.Errorf("the handler of a one-way call found %q", seen)
		}
	})
}

// Headers beyond a limit, and those with a wrong name, fail the call at the end that has made them. Other
// calls continue.
func TestHeadersBeyondLimitsAreNamed(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{Inline: 1000}, echo(rpc.RunAuto), rpc.Func("wrong", nil, func(_ context.Context, c *rpc.Call) error {
		c.AnswerHeaders().Set("big", strings.Repeat("x", 10*len(c.Body())))
		c.AnswerHeaders()[string(c.Body())] = []string{""}
		return nil
	}))
	m, wrong := w.dial(rpc.ClientConfig{}).Method("test/echo", nil), w.dial(rpc.ClientConfig{}).Method("test/wrong", nil)
	many := rpc.Headers{}
	for i := range rpc.MaxHeader + 1 {
		many.Set(fmt.Sprint(i), "")
	}
	for name, x := range map[string]struct {
		h    rpc.Headers
		want error
	}{
		"longer than a frame": {rpc.Headers{"a": {strings.Repeat("x", 1000)}}, rpc.TooLarge},
		"too many":            {many, rpc.TooLarge},
		"no name":             {rpc.Headers{"": {"x"}}, rpc.InvalidArgument},
		"upper case":          {rpc.Headers{"A": {"x"}}, rpc.InvalidArgument},
		"space":               {rpc.Headers{"a b": {"x"}}, rpc.InvalidArgument},
		"long name":           {rpc.Headers{strings.Repeat("a", rpc.MaxHeaderName+1): {"x"}}, rpc.InvalidArgument},
	} {
		if _, err := m.Bytes(rpc.WithHeaders(within(t), x.h), nil, nil); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, expected %v", name, err, x.want)
		}
		if _, err := m.Bytes(within(t), nil, nil); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	for body, want := range map[string]error{strings.Repeat("a", 90): rpc.InvalidArgument, strings.Repeat("-", 200): rpc.TooLarge, "ok": nil} {
		var back rpc.Headers
		_, err := wrong.Bytes(rpc.WithAnswer(within(t), &back), []byte(body), nil)
		if len(body) == 200 && errors.Is(err, rpc.InvalidArgument) { // whichever header comes first
			want = rpc.InvalidArgument
		}
		if !errors.Is(err, want) || (err == nil) != (len(back) == 2) {
			t.Errorf("%.5q: %v with %q, expected %v", body, err, back, want)
		}
	}
}

// Interceptors of both ends read and set headers, without the program's.
func TestInterceptorsReadAndSetHeaders(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{Intercept: func(ctx context.Context, c *rpc.Call, handle func(context.Context, *rpc.Call) error) error {
		if c.Headers().Get("Token") != "secret" {
			c.AnswerHeaders().Set("realm", "test")
			return rpc.Unauthenticated
		}
		defer func() { c.AnswerHeaders().Add("seen", c.Headers().Get("user")) }()
		return handle(ctx, c)
	}}, echo(rpc.RunAuto))
	token := ""
	var realm, seen []string
	c := w.dial(rpc.ClientConfig{Intercept: func(ctx context.Context, _ string, call func(context.Context) error) error {
		h := rpc.HeadersOf(ctx).Clone()
		h.Set("token", token)
		var back rpc.Headers
		err := call(rpc.WithAnswer(rpc.WithHeaders(ctx, h), &back))
		realm, seen = back["realm"], back["seen"]
		return err
	}})
	var back rpc.Headers
	mine := rpc.Headers{"user": {"gopher"}}
	ctx := rpc.WithAnswer(rpc.WithHeaders(within(t), mine), &back)
	m := c.Method("test/echo", nil)
	if _, err := m.Bytes(ctx, nil, nil); !errors.Is(err, rpc.Unauthenticated) || len(realm) != 1 || back.Get("realm") != "test" {
		t.Errorf("%v, with %q and %q", err, realm, back)
	}
	token = "secret"
	if _, err := m.Bytes(ctx, nil, nil); err != nil || len(seen) != 1 || seen[0] != "gopher" || back.Get("seen") != "gopher" {
		t.Errorf("%v, with %q and %q", err, seen, back)
	}
	if len(mine) != 1 {
		t.Errorf("the interceptor changed the program's headers: %q", mine)
	}
}
