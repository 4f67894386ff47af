package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"softrdma/rpc"
	"softrdma/rpc/stream"
)

// Connections are cut while a stream carries bytes both ways: none is lost or repeated.
func TestCutStreamsLoseAndRepeatNothing(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{}, echo(rpc.RunAuto))
	err := stream.Register(w.srv, "test", "echo back", func(_ context.Context, c *stream.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := w.dial(rpc.ClientConfig{})
	s, err := stream.Open(within(t), c, "test", "echo back", stream.Config{Chunk: 8000})
	if err != nil {
		t.Fatal(err)
	}
	data := random(2 << 20)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; i < len(data); i += 100_000 {
			if _, err := s.Write(data[i:min(i+100_000, len(data))]); err != nil {
				t.Error(err)
				return
			}
			if i%200_000 == 0 {
				rpc.CutClient(c, 0)
			}
		}
		if err := s.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(s)
	writer.Wait()
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
	if n := rpc.Connections(c); n < 5 {
		t.Errorf("%d connections: nothing was cut", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The server goes away at some moment. Each call ends once: with its answer, or with the error that
// says whether it may have been executed. None is executed twice.
func TestServerClosedAtAnyMomentEndsEachCallOnce(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		var l ledger
		w := serve(t, "", rpc.ServerConfig{Inline: 500}, l.record(rpc.RunAuto))
		c := w.dial(rpc.ClientConfig{Connections: 2, Calls: 8, ReconnectTimeout: 20 * time.Millisecond})
		m := c.Method("test/record", nil)
		const calls = 24
		results := make([]chan error, calls)
		for i := range results {
			results[i] = make(chan error, 2)
			n := []int{8, 400, 3000, 100_000}[r.IntN(4)]
			go func() {
				body := make([]byte, n)
				binary.BigEndian.PutUint64(body, uint64(i))
				got, err := m.Bytes(within(t), body, nil)
				if err == nil && !bytes.Equal(got, body) {
					err = errors.New("another answer")
				}
				results[i] <- err
			}()
		}
		time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		for i, ended := range results {
			err := <-ended
			l.mu.Lock()
			runs := l.runs[uint64(i)]
			l.mu.Unlock()
			switch {
			case err == nil && runs == 1, errors.Is(err, rpc.ErrOutcomeUnknown) && runs <= 1, errors.Is(err, rpc.ErrUnreachable) && runs == 0:
			default:
				t.Errorf("seed %d: call %d: %v, carried out %d times", seed, i, err, runs)
			}
			if len(ended) > 0 {
				t.Errorf("seed %d: call %d ended twice", seed, i)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
