package bench

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"time"
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

// RunEnd runs one end of a Kernel loop, for `softrdma bench end`. The server says
// "ready", the client its Result or Goodput.
func RunEnd(ctx context.Context, c *EndConfig, say func(any) error) error {
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
	begin, start := CPUTime(), time.Now()
	r, err := e.ask()
	if err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	used := CPUTime() - begin
	var other received
	if err := json.NewDecoder(conn).Decode(&other); err != nil {
		return err
	}
	switch c.Kind {
	case Saturate:
		return say(newGoodput(other.Shares))
	case Stream:
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
	begin := CPUTime()
	got, err := e.serve()
	if err != nil {
		return err
	}
	got.CPU = (CPUTime() - begin).Seconds()
	return json.NewEncoder(conn).Encode(got)
}
