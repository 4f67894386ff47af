package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// The operations of Kernel.
const (
	OpUDP = "udp" // UDP with segmentation and receive offload, both ends spinning: the limit
	OpTCP = "tcp" // one stream with cubic
)

// Kernel measures loops of this package's own over the kernel's UDP and TCP.
// Both ends are the command again, as `softrdma bench end`.
type Kernel struct {
	Path string // of the command
}

// Name is "kernel".
func (Kernel) Name() string { return "kernel" }

// Lack tells whether the system has segmentation offload of UDP.
func (Kernel) Lack() error { return lackUDP() }

// An EndConfig is what one end of Kernel's loops is told by its command line.
type EndConfig struct {
	Server  bool
	Op      string
	Kind    Kind
	Local   netip.Addr
	Peer    netip.Addr
	Port    uint16
	Bytes   int
	Segment int // bytes of a datagram of a stream over UDP
	Events  bool
	Seconds float64
}

// segmentOf is the length of a RoCE packet with the largest path MTU that the
// path carries.
func segmentOf(p *Path) int {
	if p.MTU < 4096+128 {
		return 1024 + 32
	}
	return 4096 + 32
}

func (c *EndConfig) args(path string) []string {
	a := []string{path, "bench", "end", "--op", c.Op, "--kind", string(c.Kind), "--local", c.Local.String(), "--peer", c.Peer.String(),
		"--port", strconv.Itoa(int(c.Port)), "--bytes", strconv.Itoa(c.Bytes), "--segment", strconv.Itoa(c.Segment), "--seconds", fmt.Sprintf("%.2f", c.Seconds)}
	if c.Server {
		a = append(a, "--server")
	}
	if c.Events {
		a = append(a, "--events")
	}
	return a
}

// Run implements Tool.
func (k Kernel) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	c := EndConfig{Op: w.Op, Kind: w.Kind, Local: p.Client, Peer: p.Server, Port: freePort(), Bytes: w.Bytes, Segment: segmentOf(p), Events: w.Events,
		Seconds: d.Seconds()}
	s := c
	s.Server, s.Local, s.Peer = true, p.Server, p.Client
	out, err := p.run(ctx, "ready", s.args(k.Path), c.args(k.Path))
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(out, &r); err != nil {
		return Result{}, fmt.Errorf("bench end: %w", err)
	}
	return r, nil
}

// An end is one end of a loop. The server's serve begins when the client's ask
// is about to, and ends when that does; it tells how many bytes came.
type end interface {
	ask() (Result, error)
	serve() (int64, error)
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

// A report is what the server tells over a connection of its own at the end.
type report struct {
	Bytes int64   `json:"bytes"`
	CPU   float64 `json:"cpu_s"`
}

// controlLimit bounds a whole measurement.
const controlLimit = time.Minute

// RunEnd is one end of a loop: `softrdma bench end` calls it. The server prints
// "ready", the client the Result as JSON; each by say.
func RunEnd(ctx context.Context, c *EndConfig, say func(any) error) error {
	if c.Bytes < 2 || c.Bytes > 1<<24 {
		return fmt.Errorf("bytes of a message: expected 2 to %d, found %d", 1<<24, c.Bytes)
	}
	if c.Segment < 64 || c.Segment > 1<<15 {
		return fmt.Errorf("bytes of a datagram: expected 64 to %d, found %d", 1<<15, c.Segment)
	}
	e, err := newEnd(c)
	if err != nil {
		return err
	}
	defer e.close()
	if c.Server {
		return serveEnd(ctx, c, e, say)
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.Local, 0))}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(c.Peer, c.Port).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(controlLimit))
	begin, start := cpuTime(), time.Now()
	r, err := e.ask()
	if err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	used := cpuTime() - begin
	var other report
	if err := json.NewDecoder(conn).Decode(&other); err != nil {
		return err
	}
	if c.Kind == Stream {
		r.Throughput = float64(other.Bytes) / elapsed
		r.Rate = r.Throughput / float64(c.Bytes)
		r.CPU = (used.Seconds() + other.CPU) / (float64(other.Bytes) / (1 << 30))
	}
	return say(r)
}

func serveEnd(ctx context.Context, c *EndConfig, e end, say func(any) error) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(c.Local, c.Port).String())
	if err != nil {
		return err
	}
	defer l.Close()
	if err := say("ready"); err != nil {
		return err
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(controlLimit))
	begin := cpuTime()
	got, err := e.serve()
	if err != nil {
		return err
	}
	return json.NewEncoder(conn).Encode(report{Bytes: got, CPU: (cpuTime() - begin).Seconds()})
}
