package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"softrdma/rpc"
	"softrdma/rpc/stream"
	"softrdma/verbs"
)

func openDevice(t testing.TB) *verbs.Device {
	t.Helper()
	for {
		dev, err := verbs.Open(fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)), verbs.Config{})
		if err == nil {
			t.Cleanup(func() { _ = dev.Close() })
			return dev
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// dial starts a server with a streaming method, and returns a client.
func dial(t *testing.T, h stream.Handler) *rpc.Client {
	t.Helper()
	here, there := openDevice(t), openDevice(t)
	s, err := rpc.NewServer(rpc.ServerConfig{Device: there})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := stream.Register(s, "test", "stream", h); err != nil {
		t.Fatal(err)
	}
	at, err := s.Listen(netip.AddrPortFrom(there.Addr().Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial(within(t), at.String(), rpc.ClientConfig{Device: here, RemoteUDPPort: there.Addr().Port()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t *testing.T, c *rpc.Client, cfg stream.Config) *stream.ClientConn {
	t.Helper()
	s, err := stream.Open(within(t), c, "test", "stream", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func TestStreamsCarryBothDirections(t *testing.T) {
	c := dial(t, func(_ context.Context, c *stream.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
	for _, cfg := range []stream.Config{{}, {Chunk: 1000, Window: 1}, {Chunk: 70_000, Window: 16}} {
		for _, n := range []int{0, 1, 999, 300_000} {
			s, data := open(t, c, cfg), random(n)
			var writer sync.WaitGroup
			writer.Go(func() {
				for b := data; len(b) > 0; {
					k := min(len(b), 1+rand.IntN(50_000))
					if _, err := s.Write(b[:k]); err != nil {
						t.Error(err)
						return
					}
					b = b[k:]
				}
				if err := s.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			got, err := io.ReadAll(iotest.HalfReader(s))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%+v: %d bytes of %d, %v", cfg, len(got), n, err)
			}
			writer.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The handler reads the headers with which the stream was opened. Those of another stream are others.
func TestHandlerReadsTheHeadersOfTheStream(t *testing.T) {
	c := dial(t, func(_ context.Context, c *stream.Conn) error {
		if _, err := io.ReadAll(c); err != nil { // the call that has opened the stream is over
			return err
		}
		_, err := fmt.Fprintf(c, "%s %q", c.Headers().Get("User"), c.Headers()["trace"])
		return err
	})
	for _, x := range []struct {
		headers rpc.Headers
		want    string
	}{
		{rpc.Headers{"user": {"gopher"}, "trace": {"1", "\x00"}}, `gopher ["1" "\x00"]`},
		{rpc.Headers{"user": {"other"}}, `other []`},
		{nil, ` []`},
	} {
		s, err := stream.Open(rpc.WithHeaders(within(t), x.headers), c, "test", "stream", stream.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(random(1000)); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(s); err != nil || string(got) != x.want {
			t.Errorf("%q, %v, expected %q", got, err, x.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUploadIsReadWhole(t *testing.T) {
	sums := make(chan [32]byte, 1)
	c := dial(t, func(_ context.Context, c *stream.Conn) error {
		b, err := io.ReadAll(c)
		sums <- sha256.Sum256(b)
		return err
	})
	s, data := open(t, c, stream.Config{}), random(5<<20)
	if _, err := io.Copy(s, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if <-sums != sha256.Sum256(data) {
		t.Error("other bytes arrived")
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v, expected the end", n, err)
	}
}

func TestErrorOfTheHandlerEndsReadingAndWriting(t *testing.T) {
	c := dial(t, func(_ context.Context, c *stream.Conn) error {
		if _, err := c.Write([]byte("some")); err != nil {
			return err
		}
		return rpc.Errorf(rpc.PermissionDenied, "not for you")
	})
	s := open(t, c, stream.Config{})
	got, err := io.ReadAll(s)
	if string(got) != "some" || !errors.Is(err, rpc.PermissionDenied) {
		t.Errorf("%q, %v, expected %v", got, err, rpc.PermissionDenied)
	}
	if _, err = s.Write([]byte("x")); err == nil {
		err = s.CloseWrite()
	}
	if !errors.Is(err, rpc.Aborted) {
		t.Errorf("writing: %v, expected %v", err, rpc.Aborted)
	}
}

func TestCloseEndsTheHandler(t *testing.T) {
	ended := make(chan error, 2)
	c := dial(t, func(ctx context.Context, c *stream.Conn) error {
		_, err := c.Read(make([]byte, 1))
		ended <- err
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	})
	s := open(t, c, stream.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the handler did not notice")
			}
		case <-within(t).Done():
			t.Fatal("the handler goes on")
		}
	}
}

// The client is lost without a word: the handler ends with the session, or later if the client was lost
// before the server knew that it holds the stream. Some reads make that unlikely.
func TestLostClientEndsTheHandler(t *testing.T) {
	ended := make(chan struct{})
	c := dial(t, func(ctx context.Context, c *stream.Conn) error {
		defer close(ended)
		for { // until the client does not take any more
			if _, err := c.Write([]byte("x")); err != nil {
				<-ctx.Done()
				return nil
			}
		}
	})
	if _, err := io.ReadFull(open(t, c, stream.Config{}), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(2 * time.Minute): // longer than the server waits for a client that holds the stream
		t.Fatal("the handler continues")
	}
}

func TestChunksOutOfTurnAreRefused(t *testing.T) {
	c := dial(t, func(ctx context.Context, _ *stream.Conn) error {
		<-ctx.Done()
		return nil
	})
	number, err := c.Method("test/stream.open", nil).Bytes(within(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		method string
		body   []byte
		want   rpc.Code
	}{
		"short":          {"write", number, rpc.InvalidArgument},
		"flags":          {"write", append(append(bytes.Clone(number), make([]byte, 8)...), 9), rpc.InvalidArgument},
		"far ahead":      {"write", append(append(bytes.Clone(number), 1, 0, 0, 0, 0, 0, 0, 0), 0), rpc.InvalidArgument},
		"no bytes":       {"read", append(bytes.Clone(number), make([]byte, 12)...), rpc.InvalidArgument},
		"another stream": {"write", make([]byte, 17), rpc.NotFound},
	} {
		if _, err := c.Method("test/stream."+x.method, nil).Bytes(within(t), x.body, nil); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, expected %v", name, err, x.want)
		}
	}
	if _, err := stream.Open(within(t), c, "test", "other", stream.Config{}); !errors.Is(err, rpc.UnknownMethod) {
		t.Errorf("%v, expected %v", err, rpc.UnknownMethod)
	}
}
