package rpc_test

import (
	"context"
	"net"
	netrpc "net/rpc"
	"testing"

	"softrdma/rpc"
)

// pingPong makes 64-byte calls.
func pingPong(b *testing.B, run rpc.Run) {
	w := serve(b, "", rpc.ServerConfig{}, echo(run))
	m := w.dial(rpc.ClientConfig{}).Method("test/echo", nil)
	body, dst := make([]byte, 64), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Bytes(context.Background(), body, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall measures calls with 64 bytes each way between two devices of this process: the cost
// of both ends.
func BenchmarkCall(b *testing.B) {
	b.Run("receiver", func(b *testing.B) { pingPong(b, rpc.RunReceiver) })
	b.Run("goroutine", func(b *testing.B) { pingPong(b, rpc.RunGoroutine) })
	b.Run("net rpc over TCP", benchmarkNetRPC)
}

// Echo is a service of net/rpc.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(in []byte, out *[]byte) error {
	*out = in
	return nil
}

func benchmarkNetRPC(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := netrpc.NewServer()
	if err := s.Register(Echo{}); err != nil {
		b.Fatal(err)
	}
	go s.Accept(l)
	c, err := netrpc.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		var out []byte
		if err := c.Call("Echo.Echo", body, &out); err != nil {
			b.Fatal(err)
		}
	}
}
