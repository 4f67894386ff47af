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
)

// A server that accepts connections and then refuses all that they carry is not connected to without pause. The
// call continues when the server does.
func TestConnectionsThatBreakAtOnceAreMadeWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simnet.Faults{Delay: 10 * time.Microsecond}
		w := bubble.New(1, simnet.LinkConfig{Egress: d, Ingress: d})
		defer w.End()
		var hosts []*bubble.Host
		for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
			h, err := w.Open(address)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Device.Close()
			hosts = append(hosts, h)
		}
		s, err := rpc.NewServer(rpc.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Register("test", rpc.Func("echo", nil, func(_ context.Context, c *rpc.Call) error { return c.Encode(c.Body()) })); err != nil {
			t.Fatal(err)
		}
		at, err := s.ListenOn(hosts[1].Device, "127.0.0.3:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := rpc.Dial(context.Background(), at.String(), rpc.ClientConfig{Device: hosts[0].Device, Connections: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		refusing := faults.Rules{Rules: []faults.Rule{{
			Select: faults.Selector{Service: []string{"rc"}, Until: faults.Duration(5 * time.Second)},
			Action: faults.Answer, Answer: "remote operational",
		}}}
		if err := hosts[1].Device.Faults().Set(refusing); err != nil {
			t.Fatal(err)
		}
		body := []byte("hello")
		answer, err := c.Method("test/echo", nil).Bytes(context.Background(), body, nil)
		if err != nil || !bytes.Equal(answer, body) {
			t.Fatalf("found %q, %v", answer, err)
		}
		if n := hosts[1].Device.Faults().Counts()[0]; n == 0 || n > 100 {
			t.Errorf("the server refused %d requests in 5 s, expected some", n)
		}
	})
}
