package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
	"softrdma/rpc"
	"softrdma/verbs"
)

// newCallsCommand returns the hidden command that bench starts as one end of a loop over a library
// for remote procedure calls.
func newCallsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "calls CONFIG", Short: "One end of a loop of remote procedure calls, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c compare.CallsConfig
			if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
				return fmt.Errorf("configuration of an end: %w", err)
			}
			if c.Bytes < 0 || c.Bytes > 1<<24 {
				return fmt.Errorf("bytes of a body: expected at most %d, found %d", 1<<24, c.Bytes)
			}
			switch c.Library {
			case compare.NetRPCName, compare.HTTPName, compare.GRPCName:
				return connectionCalls(cmd, &c)
			case compare.CallsName:
				return calls(cmd, &c)
			}
			return fmt.Errorf("unknown library %q", c.Library)
		},
	}
}

// calls is one end of package rpc.
func calls(cmd *cobra.Command, c *compare.CallsConfig) error {
	dev, err := verbs.Open(c.Device, verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
	if err != nil {
		return err
	}
	defer dev.Close()
	if c.Peer == "" {
		return serveCalls(cmd.Context(), cmd.OutOrStdout(), dev)
	}
	client, err := rpc.Dial(cmd.Context(), c.Peer, rpc.ClientConfig{Device: dev, RemoteUDPPort: c.UDPPort})
	if err != nil {
		return err
	}
	defer client.Close()
	m, body, dst := client.Method("bench/echo", rpc.Raw), make([]byte, c.Bytes), make([]byte, 0, c.Bytes)
	return measureCalls(cmd.OutOrStdout(), c.Seconds, func() error {
		_, err := m.Bytes(cmd.Context(), body, dst)
		return err
	})
}

func serveCalls(ctx context.Context, out io.Writer, dev *verbs.Device) error {
	s, err := rpc.NewServer(rpc.ServerConfig{Device: dev})
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.Register("bench", rpc.Func("echo", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
		b, err := c.Reserve(len(c.Body()))
		copy(b, c.Body())
		return err
	}))
	if err != nil {
		return err
	}
	at, err := s.Listen(netip.AddrPortFrom(dev.Addr().Addr(), 0).String())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "ready %v %d\n", at, dev.Addr().Port()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// measureCalls makes calls for some time after a warm-up, and prints percentiles of how long they
// took.
func measureCalls(out io.Writer, s float64, call func() error) error {
	d := time.Duration(s * float64(time.Second))
	times := make([]float64, 0, 1<<20)
	start := time.Now()
	for now := start; now.Sub(start) < d+d/10 && len(times) < cap(times); {
		if err := call(); err != nil {
			return err
		}
		end := time.Now()
		if end.Sub(start) > d/10 {
			times = append(times, float64(end.Sub(now).Nanoseconds())/1e3)
		}
		now = end
	}
	if len(times) == 0 {
		return errors.New("no call in the measured time")
	}
	slices.Sort(times)
	return json.NewEncoder(out).Encode(loop.Result{P50: times[len(times)/2], P99: times[len(times)*99/100]})
}
