package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// A Kind is what a piece of work asks of a tool.
type Kind string

// The kinds.
const (
	Stream Kind = "stream" // messages one way, many under way
	Ping   Kind = "ping"   // one message to and fro
	Pour   Kind = "pour"   // as many bytes as the path takes, see Goodput
	Idle   Kind = "idle"   // connections that nothing is sent over
)

// A Work is what one tool is to measure; comparable, so that the figures that
// want the same share one measurement.
type Work struct {
	Tool   string
	Kind   Kind
	Op     string // of the tool: write, read, send; tag_bw, put_lat, …
	Bytes  int    // of a message
	MTU    int    // path MTU of RDMA, 0 for the path's
	Events bool   // sleep for what comes instead of spinning

	QPs int // queue pairs that take turns, see CrowdConfig; 0 is one of softrdma perf's

	Protocol string // of softrdma's devices, as its --protocol takes it; "" is RoCE v2
}

// String names the work as the report does.
func (w Work) String() string {
	s := w.Tool
	if w.Protocol != "" {
		s += " " + w.Protocol
	}
	if w.Op != "" {
		s += " " + w.Op
	}
	if w.Kind == Idle {
		s += " idle"
	} else {
		s += " " + sizeName(w.Bytes)
	}
	if w.QPs != 0 {
		s += fmt.Sprintf(" over %d queue pairs", w.QPs)
	}
	if w.MTU != 0 {
		s += fmt.Sprintf(", MTU %d", w.MTU)
	}
	if w.Events {
		s += ", sleeping"
	}
	return s
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// A Result is what a tool found; what does not apply is zero.
type Result struct {
	Throughput float64 `json:"bytes_per_s,omitempty"`
	Rate       float64 `json:"messages_per_s,omitempty"`
	CPU        float64 `json:"cpu_s_per_gib,omitempty"` // of both ends
	P50        float64 `json:"p50_us,omitempty"`        // half a round trip
	P99        float64 `json:"p99_us,omitempty"`

	Memory      float64 `json:"idle_qp_bytes,omitempty"` // of a connected queue pair that nothing was posted to
	Allocations float64 `json:"allocations,omitempty"`   // of an operation
	Idle        float64 `json:"idle_cores,omitempty"`    // processors that an idle device keeps busy
}

// A Tool measures works of one peer. Run starts both ends on the path, waits
// for the result and leaves no process behind.
type Tool interface {
	Name() string
	Lack() error // why it cannot run here, nil where it can
	Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error)
}

// A Path is what the two ends have between them.
type Path struct {
	Name   string
	MTU    int // of the interfaces, bytes
	Client netip.Addr
	Server netip.Addr
	Inside [2][]string // what a command line of the client and the server starts with
	Device [2]string   // interfaces of the client and the server, where they count
	close  func()

	place Place  // where the ends run, nil on this machine
	port  uint16 // UDP port of softrdma's devices, 0 for RoCE's
}

// device is the name of softrdma's device at an end.
func (p *Path) device(end int) string {
	addr := [2]netip.Addr{p.Client, p.Server}[end]
	if p.port == 0 {
		return addr.String()
	}
	return netip.AddrPortFrom(addr, p.port).String()
}

// Close takes down what was set up for the path.
func (p *Path) Close() {
	if p.close != nil {
		p.close()
	}
}

// Loopback is the path over the loopback interface.
func Loopback() *Path {
	return &Path{Name: "loopback", MTU: 65536, Client: netip.MustParseAddr("127.12.0.1"), Server: netip.MustParseAddr("127.12.0.2")}
}
