package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"softrdma/bench/loop"
)

// The libraries of Calls.
const (
	CallsName  = "rpc"     // package rpc over RDMA
	NetRPCName = "net/rpc" // Go's net/rpc over TCP
)

// Calls measures remote procedure calls between two processes: a body of some bytes each way, one
// call at a time. The latency is that of a whole call.
type Calls struct {
	Library string // CallsName or NetRPCName
	Path    string // of the command
}

// A CallsConfig configures one end. Encoded as JSON it is the argument of `softrdma bench calls`. The
// server prints "ready", its address and its device's UDP port.
type CallsConfig struct {
	Library  string  `json:"library"`
	Device   string  `json:"device"`
	SameHost string  `json:"same_host"` // value of --same-host
	Peer     string  `json:"peer"`      // the server's address and port; empty at the server
	UDPPort  uint16  `json:"udp_port"`  // of the server's device
	Local    string  `json:"local"`     // address of the server of NetRPCName
	Bytes    int     `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

// Name returns the name of the library.
func (c Calls) Name() string { return c.Library }

// Check returns nil: both libraries are in the command.
func (Calls) Check() error { return nil }

// Run implements Tool.
func (c Calls) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	ask := CallsConfig{Library: c.Library, Device: p.device(client), SameHost: p.sameHostMode(), Bytes: w.Bytes, Seconds: d.Seconds()}
	serve := ask
	serve.Device, serve.Local = p.device(server), p.Server.String()
	args, err := serve.args(c.Path)
	if err != nil {
		return r, err
	}
	running, said, err := p.startServer(ctx, "ready", args...)
	if err != nil {
		return r, err
	}
	defer running.stop()
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], "ready %s %d", &ask.Peer, &ask.UDPPort); err != nil {
		return r, fmt.Errorf("bench calls: %q: %w", said, err)
	}
	if args, err = ask.args(c.Path); err != nil {
		return r, err
	}
	err = p.runClientJSON(ctx, &r, args...)
	return r, err
}

func (c *CallsConfig) args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "bench", "calls", string(text)}, err
}

// callFigures returns the figures of package rpc on a path. Package examples/grpc compares with gRPC,
// on which the command does not depend.
func callFigures() []Figure {
	call := Measure{Work{Tool: CallsName, Kind: loop.Ping, Op: "call", Bytes: 64}, P50}
	against := call
	against.Work.Tool = NetRPCName
	return []Figure{{"msg: rpc 64 B call, of net/rpc over TCP", call, against, true, .3, 0}}
}
