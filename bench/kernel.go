package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The operations of Kernel.
const (
	OpUDP = "udp" // UDP with segmentation and receive offload, both ends polling: the upper limit
	OpTCP = "tcp" // one stream with cubic

	OpSystemTCP = "tcp as it is" // one stream with the system's congestion control
)

// Kernel measures this package's own loops over the kernel's UDP and TCP. Both ends run
// `softrdma bench end`.
type Kernel struct {
	Path string // of the command
}

// Name returns "kernel".
func (Kernel) Name() string { return "kernel" }

// Lack returns an error unless the system has segmentation offload for UDP.
func (Kernel) Lack() error { return lackUDP() }

// An EndConfig configures one end of a Kernel loop. Encoded as JSON it is the argument
// of `softrdma bench end`.
type EndConfig struct {
	Server  bool       `json:"server"`
	Op      string     `json:"op"`
	Kind    Kind       `json:"kind"`
	Local   netip.Addr `json:"local"`
	Peer    netip.Addr `json:"peer"`
	Port    uint16     `json:"port"`    // the next port is used too
	Bytes   int        `json:"bytes"`   // of a message
	Segment int        `json:"segment"` // bytes of a datagram of a stream over UDP
	Events  bool       `json:"events"`  // sleep in the kernel instead of polling
	Seconds float64    `json:"seconds"`
	Control string     `json:"control"` // TCP's congestion control; "" is the system's
	Flows   int        `json:"flows"`   // for Saturate
	Margin  float64    `json:"margin"`  // for Saturate: seconds at the beginning and the end that are not measured
}

// segmentOf returns the length of a RoCE packet with the largest path MTU that the path
// carries.
func segmentOf(p *Path) int {
	if p.MTU < 4096+128 {
		return 1024 + 32
	}
	return 4096 + 32
}

// ParseEndConfig parses and checks the argument of `softrdma bench end`.
func ParseEndConfig(text string) (*EndConfig, error) {
	c := &EndConfig{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("configuration of an end: %w", err)
	}
	return c, c.check()
}

func (c *EndConfig) duration() time.Duration { return seconds(c.Seconds) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// check returns an error if the configuration is invalid.
func (c *EndConfig) check() error {
	switch {
	case !c.Local.IsValid() || !c.Peer.IsValid():
		return fmt.Errorf("addresses: expected two, found %v and %v", c.Local, c.Peer)
	case c.Bytes < 2 || c.Bytes > 1<<24:
		return fmt.Errorf("bytes of a message: expected 2 to %d, found %d", 1<<24, c.Bytes)
	case c.Kind == Saturate && (c.Op != OpTCP || c.Flows < 1 || c.Flows > maxFlows || !(c.Margin >= 0) || 2*c.Margin >= c.Seconds):
		return fmt.Errorf("saturate: expected tcp, 1 to %d flows and a margin of less than half the time, found %s, %d, and %v of %v seconds",
			maxFlows, c.Op, c.Flows, c.Margin, c.Seconds)
	case c.Segment < 64 || c.Segment > 1<<15:
		return fmt.Errorf("bytes of a datagram: expected 64 to %d, found %d", 1<<15, c.Segment)
	}
	return nil
}

// args returns the command line of the end.
func (c *EndConfig) args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "bench", "end", string(text)}, err
}

// Run implements Tool.
func (k Kernel) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	op, control := w.Op, "cubic"
	if op == OpSystemTCP {
		op, control = OpTCP, ""
	}
	out, err := k.both(ctx, p, EndConfig{
		Op: op, Kind: w.Kind, Local: p.Client, Peer: p.Server, Port: freePort(), Bytes: w.Bytes, Segment: segmentOf(p), Events: w.Events,
		Seconds: d.Seconds(), Control: control,
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
func (k Kernel) both(ctx context.Context, p *Path, c EndConfig) ([]byte, error) {
	s := c
	s.Server, s.Local, s.Peer = true, c.Peer, c.Local
	serve, err := s.args(k.Path)
	if err != nil {
		return nil, err
	}
	ask, err := c.args(k.Path)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, "ready", serve, ask)
}

// An end is one end of a loop. The client calls ask while the server calls serve.
type end interface {
	ask() (Result, error)
	serve() (received, error)
	close()
}

func newEnd(c *EndConfig) (end, error) {
	switch c.Op {
	case OpUDP:
		return newUDPEnd(c)
	case OpTCP:
		return newTCPEnd(c)
	}
	return nil, fmt.Errorf("operation: expected %s or %s, found %q", OpUDP, OpTCP, c.Op)
}
