package loop

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"time"

	"softrdma/internal/host"
)

// A received is the server's result, which it sends over a control connection at the
// end.
type received struct {
	Bytes  int64     `json:"bytes"`
	CPU    float64   `json:"cpu_s"`
	Shares []float64 `json:"shares,omitempty"` // for Saturate: bits per second of each flow between the margins
}

// controlLimit is the time limit of a measurement.
const controlLimit = time.Minute

// A Result is the result of a measurement. Fields that do not apply are zero.
type Result struct {
	Throughput float64 `json:"bytes_per_s,omitempty"`
	Rate       float64 `json:"messages_per_s,omitempty"`
	CPU        float64 `json:"cpu_s_per_gib,omitempty"` // of both ends
	P50        float64 `json:"p50_us,omitempty"`        // half a round trip
	P99        float64 `json:"p99_us,omitempty"`
}

// Rates is the result of Saturate.
type Rates struct {
	Shares []float64 `json:"shares_bits_per_s"` // of each flow
}

// Run runs one end of a loop, for `bench end`. The server says "ready", the
// client its Result or Rates.
func Run(ctx context.Context, c *Config, say func(any) error) error {
	if err := c.check(); err != nil {
		return err
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
	begin, start := host.CPUTime(), time.Now()
	r, err := e.ask()
	if err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	used := host.CPUTime() - begin
	var other received
	if err := json.NewDecoder(conn).Decode(&other); err != nil {
		return err
	}
	switch c.Kind {
	case Saturate:
		return say(Rates{Shares: other.Shares})
	case Stream:
		r.Throughput = float64(other.Bytes) / elapsed
		r.Rate = r.Throughput / float64(c.Bytes)
		r.CPU = (used.Seconds() + other.CPU) / (float64(other.Bytes) / (1 << 30))
	}
	return say(r)
}

func serveEnd(ctx context.Context, c *Config, e end, say func(any) error) error {
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
	begin := host.CPUTime()
	got, err := e.serve()
	if err != nil {
		return err
	}
	got.CPU = (host.CPUTime() - begin).Seconds()
	return json.NewEncoder(conn).Encode(got)
}
