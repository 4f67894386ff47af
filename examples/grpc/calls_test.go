package main

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"softrdma/rpc"
)

// BenchmarkCalls compares calls with 64 bytes each way, both ends in this process.
func BenchmarkCalls(b *testing.B) {
	b.Run("rpc", benchmarkRPC)
	b.Run("gRPC over rdmanet", func(b *testing.B) {
		s, address, err := serve("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer s.Stop()
		c, err := dial(address)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		benchmarkGRPC(b, c)
	})
	b.Run("gRPC over TCP", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := grpc.NewServer()
		s.RegisterService(&service, server{})
		go s.Serve(l)
		defer s.Stop()
		c, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		benchmarkGRPC(b, c)
	})
}

// name makes the greeting about 64 bytes long.
var name = string(make([]byte, 56))

func benchmarkGRPC(b *testing.B, c *grpc.ClientConn) {
	in := wrapperspb.String(name)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Invoke(context.Background(), "/Greeter/Greet", in, new(wrapperspb.StringValue)); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkRPC(b *testing.B) {
	s, err := rpc.NewServer(rpc.ServerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	err = s.Register("greeter", rpc.Func("greet", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
		out, err := c.Reserve(7 + len(c.Body()))
		copy(out, "hello, ")
		copy(out[min(7, len(out)):], c.Body())
		return err
	}))
	if err != nil {
		b.Fatal(err)
	}
	at, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	c, err := rpc.Dial(context.Background(), at.String(), rpc.ClientConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	m, in, dst := c.Method("greeter/greet", rpc.Raw), []byte(name), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Bytes(context.Background(), in, dst); err != nil {
			b.Fatal(err)
		}
	}
}
