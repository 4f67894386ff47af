package protobuf_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"softrdma/rpc"
	"softrdma/rpc/protobuf"
	"softrdma/rpc/protobuf/internal/greet"
)

type greeter struct{}

func (greeter) Hello(_ context.Context, in *greet.Request) (*greet.Reply, error) {
	if in.Name == "" {
		return nil, rpc.Errorf(rpc.InvalidArgument, "no name")
	}
	return &greet.Reply{Text: "hello, " + in.Name}, nil
}

func (g greeter) Chat(ctx context.Context, s *protobuf.ServerStream[greet.Request, greet.Reply, *greet.Request, *greet.Reply]) error {
	for {
		in, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := g.Hello(ctx, in)
		if err != nil {
			return err
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

// dial starts the generated server and returns the generated client.
func dial(t *testing.T) (context.Context, greet.GreeterClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	s, err := rpc.NewServer(rpc.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := greet.RegisterGreeterServer(s, greeter{}); err != nil {
		t.Fatal(err)
	}
	at, err := s.Listen("127.0.0.61:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := rpc.Dial(ctx, at.String(), rpc.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, greet.NewGreeterClient(c)
}

func TestGeneratedClientCallsGeneratedServer(t *testing.T) {
	ctx, c := dial(t)
	out, err := c.Hello(ctx, &greet.Request{Name: "gopher"})
	if err != nil || out.Text != "hello, gopher" {
		t.Errorf("%v, %v", out, err)
	}
	if _, err := c.Hello(ctx, &greet.Request{}); !errors.Is(err, rpc.InvalidArgument) {
		t.Errorf("%v, expected %v", err, rpc.InvalidArgument)
	}
}

func TestGeneratedStreamsCarryMessagesBothWays(t *testing.T) {
	ctx, c := dial(t)
	s, err := c.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := s.Send(&greet.Request{Name: name}); err != nil {
			t.Fatal(err)
		}
		if out, err := s.Receive(); err != nil || out.Text != "hello, "+name {
			t.Fatalf("%v, %v", out, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, expected the end", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCodecTakesMessagesAlone(t *testing.T) {
	if _, err := protobuf.Codec.Append(nil, "text"); err == nil {
		t.Error("a string was encoded")
	}
	if err := protobuf.Codec.Decode(nil, new(string)); err == nil {
		t.Error("a string was decoded")
	}
	if err := protobuf.Codec.Decode([]byte{0xff}, new(greet.Reply)); err == nil {
		t.Error("a malformed message was decoded")
	}
}
