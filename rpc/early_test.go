package rpc_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/faults"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rpc"
	"softrdma/verbs"
)

// dialInBubble starts a server with the service "test" on a simulated network, and makes a client. It is called in
// a bubble, and returns the server's device too. All of it ends with the test.
func dialInBubble(t *testing.T, server rpc.ServerConfig, client rpc.ClientConfig, methods ...*rpc.Procedure) (*rpc.Client, *verbs.Device) {
	t.Helper()
	d := simnet.Faults{Delay: 10 * time.Microsecond}
	w := bubble.New(1, simnet.LinkConfig{Egress: d, Ingress: d})
	t.Cleanup(w.End)
	var devices []*verbs.Device
	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		h, err := w.Open(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Device.Close() })
		devices = append(devices, h.Device)
	}
	s, err := rpc.NewServer(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Register("test", methods...); err != nil {
		t.Fatal(err)
	}
	at, err := s.ListenOn(devices[1], "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	client.Device = devices[0]
	c, err := rpc.Dial(context.Background(), at.String(), client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, devices[1]
}

// A server that accepts connections and then refuses all that they carry is not connected to without pause. The
// call continues when the server does.
func TestConnectionsThatBreakAtOnceAreMadeWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialInBubble(t, rpc.ServerConfig{}, rpc.ClientConfig{Connections: 1},
			rpc.Func("echo", nil, func(_ context.Context, c *rpc.Call) error { return c.Encode(c.Body()) }))
		refusing := faults.Rules{Rules: []faults.Rule{{
			Select: faults.Selector{Service: []string{"rc"}, Until: faults.Duration(5 * time.Second)},
			Action: faults.Answer, Answer: "remote operational",
		}}}
		if err := server.Faults().Set(refusing); err != nil {
			t.Fatal(err)
		}
		body := []byte("hello")
		answer, err := c.Method("test/echo", nil).Bytes(context.Background(), body, nil)
		if err != nil || !bytes.Equal(answer, body) {
			t.Fatalf("found %q, %v", answer, err)
		}
		if n := server.Faults().Counts()[0]; n == 0 || n > 100 {
			t.Errorf("the server refused %d requests in 5 s, expected some", n)
		}
	})
}
