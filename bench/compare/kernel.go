package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"softrdma/bench/loop"
)

// Kernel measures package loop's loops over the kernel's UDP and TCP. Both ends run
// `bench end`.
type Kernel struct {
	Path string // of this program
}

// Name returns "kernel".
func (Kernel) Name() string { return "kernel" }

// Check returns an error unless the system has segmentation offload for UDP.
func (Kernel) Check() error { return loop.CheckUDP() }

// segmentOf returns the length of a RoCE packet with the largest path MTU that the path
// carries.
func segmentOf(p *Path) int {
	if p.MTU < 4096+128 {
		return 1024 + 32
	}
	return 4096 + 32
}

// Run implements Tool.
func (k Kernel) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	op, control := w.Op, "cubic"
	if op == loop.OpSystemTCP {
		op, control = loop.OpTCP, ""
	}
	out, err := k.both(ctx, p, loop.Config{
		Op: op, Kind: w.Kind, Local: p.Client, Peer: p.Server, Port: loop.FreePort(), Bytes: w.Bytes, Segment: segmentOf(p), Events: w.Events,
		Seconds: d.Seconds(), Control: control, SameHost: p.sameHostMode(),
	})
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("bench end: %w", err)
	}
	return r, nil
}

// both runs both ends with the client's configuration, and returns the client's output.
func (k Kernel) both(ctx context.Context, p *Path, c loop.Config) ([]byte, error) {
	s := c
	s.Server, s.Local, s.Peer = true, c.Peer, c.Local
	serve, err := s.Args(k.Path)
	if err != nil {
		return nil, err
	}
	ask, err := c.Args(k.Path)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, "ready", serve, ask)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
