package compare

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
	NetRPCName = "net/rpc" // Go's net/rpc, over TCP or rdmanet
	HTTPName   = "HTTP"    // HTTP/1.1 of net/http, over the same
	GRPCName   = "gRPC"    // gRPC, over the same
)

// Calls measures remote procedure calls between two processes: a body of some bytes each way, one
// call at a time. The latency is that of a whole call.
type Calls struct {
	Library string
	RDMANet bool   // over package rdmanet instead of TCP
	Path    string // of this program
}

// A CallsConfig configures one end. Encoded as JSON it is the argument of `bench calls`. The
// server prints "ready", its address and its device's UDP port.
type CallsConfig struct {
	Library  string  `json:"library"`
	RDMANet  bool    `json:"rdmanet"`
	Device   string  `json:"device"`
	SameHost string  `json:"same_host"` // value of --same-host
	Peer     string  `json:"peer"`      // the server's address and port; empty at the server
	UDPPort  uint16  `json:"udp_port"`  // of the server's device
	Local    string  `json:"local"`     // address of a server over TCP
	Bytes    int     `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

// Name returns the name of the library, and what it uses if that is not TCP.
func (c Calls) Name() string {
	if c.RDMANet {
		return c.Library + overRDMANet
	}
	return c.Library
}

const overRDMANet = " over rdmanet"

// Check returns nil: the libraries are part of this program.
func (Calls) Check() error { return nil }

// Run implements Tool.
func (c Calls) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	ask := CallsConfig{Library: c.Library, RDMANet: c.RDMANet, Device: p.device(client), SameHost: p.sameHostMode(), Bytes: w.Bytes, Seconds: d.Seconds()}
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
	return []string{path, "calls", string(text)}, err
}

// callFigures returns the figures of package rpc on a path. Those over rdmanet have no gate.
func callFigures() (list []Figure) {
	call := Measure{Work{Tool: CallsName, Kind: loop.Ping, Op: "call", Bytes: 64}, P50}
	for _, x := range []struct {
		tool          string
		gate, stretch float64
	}{
		{NetRPCName, .3, 0}, {GRPCName, .2, .1}, {HTTPName, 0, 0},
		{NetRPCName + overRDMANet, 0, 0}, {GRPCName + overRDMANet, 0, 0}, {HTTPName + overRDMANet, 0, 0},
	} {
		against := call
		against.Work.Tool = x.tool
		name := "msg: rpc 64 B call, of " + x.tool
		if !strings.HasSuffix(name, overRDMANet) {
			name += " over TCP"
		}
		list = append(list, Figure{name, call, against, true, x.gate, x.stretch})
	}
	return list
}

// CallTools returns the tools of these figures. Path is that of the command.
func CallTools(path string) (list []Tool) {
	list = append(list, Calls{Library: CallsName, Path: path})
	for _, name := range []string{NetRPCName, HTTPName, GRPCName} {
		list = append(list, Calls{Library: name, Path: path}, Calls{Library: name, RDMANet: true, Path: path})
	}
	return list
}
