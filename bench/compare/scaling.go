package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"softrdma/bench/loop"
)

// MaxScalingQPs is the maximum number of queue pairs of the QP-scaling benchmark.
const MaxScalingQPs = 1 << 20

// A ScalingConfig configures one end of the QP-scaling benchmark. Encoded as JSON it
// is the argument of `bench scaling`. The ends exchange their queue pairs over
// TCP. If Bytes is not 0 the client WRITEs messages over all queue pairs in turn, from
// and to the same memory; otherwise the queue pairs stay idle.
type ScalingConfig struct {
	Server  bool    `json:"server"`
	Device  string  `json:"device"`
	Address string  `json:"address"` // of the server, host and TCP port
	QPs     int     `json:"qps"`
	Bytes   int     `json:"bytes"` // of a message
	Seconds float64 `json:"seconds"`

	SameHost string `json:"same_host"` // value of --same-host
	Process  int    `json:"process"`   // the server's, whose wake-ups the client counts if the queue pairs are idle; 0 if there is none
}

// Limits of the outstanding bytes and messages over all queue pairs.
const (
	scalingBytes    = 8 << 20
	scalingMessages = 1024
)

// Flight returns the number of outstanding messages over all queue pairs.
func (c *ScalingConfig) Flight() int {
	return max(1, min(scalingBytes/max(c.Bytes, 1), scalingMessages))
}

// Depth returns the maximum number of outstanding messages of one queue pair.
func (c *ScalingConfig) Depth() int { return max(1, c.Flight()/c.QPs) }

// Duration returns the duration of the measurement.
func (c *ScalingConfig) Duration() time.Duration { return seconds(c.Seconds) }

// ParseScalingConfig parses and checks the argument of `bench scaling`.
func ParseScalingConfig(text string) (*ScalingConfig, error) {
	c := &ScalingConfig{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("configuration of an end: %w", err)
	}
	switch {
	case c.QPs < 1 || c.QPs > MaxScalingQPs:
		return nil, fmt.Errorf("queue pairs: expected 1 to %d, found %d", MaxScalingQPs, c.QPs)
	case c.Bytes < 0 || c.Bytes > 1<<24:
		return nil, fmt.Errorf("bytes of a message: expected up to %d, found %d", 1<<24, c.Bytes)
	case !(c.Seconds > 0) || c.Seconds > 3600:
		return nil, fmt.Errorf("seconds: expected up to 3600, found %v", c.Seconds)
	}
	return c, nil
}

func (c ScalingConfig) args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "scaling", string(text)}, err
}

// scaling runs both ends of the QP-scaling benchmark.
func (s Softrdma) scaling(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	c := ScalingConfig{
		Device: p.device(server), Address: fmt.Sprintf("%v:%d", p.Server, loop.FreePort()), QPs: w.QPs, Bytes: w.Bytes, Seconds: d.Seconds(),
		Server: true, SameHost: p.sameHostMode(),
	}
	serve, err := c.args(s.Bench)
	if err != nil {
		return r, err
	}
	daemon, _, err := p.startServer(ctx, "ready", serve...)
	if err != nil {
		return r, err
	}
	defer daemon.stop()
	c.Server, c.Device = false, p.device(client)
	if p.sameHost != "" {
		c.Process = daemon.pid
	}
	ask, err := c.args(s.Bench)
	if err != nil {
		return r, err
	}
	err = p.runClientJSON(ctx, &r, ask...)
	return r, err
}

// scalingFigures returns the figures about many queue pairs between two devices.
func scalingFigures() []Figure {
	over := func(n, bytes int) Work {
		return Work{Tool: "softrdma", Kind: Stream, Op: "write", Bytes: bytes, QPs: n}
	}
	idle := Work{Tool: "softrdma", Kind: Idle, QPs: 1000}
	many, most, short := over(1000, mib), over(100_000, mib), over(1000, 4<<10)
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return []Figure{
		{"1 MiB WRITE over 1,000 queue pairs, of one", at(many, Throughput), at(over(1, mib), Throughput), false, .8, .95},
		{"1 MiB WRITE over 100,000 queue pairs, of one", at(most, Throughput), at(over(1, mib), Throughput), false, .6, .9},
		{"4 KiB WRITE over 1,000 queue pairs, of one", at(short, Rate), at(over(1, 4<<10), Rate), false, .5, .8},
		{"memory of an idle queue pair, of 100,000", at(most, Memory), Measure{}, true, 4096, 1024},
		// Counted in the whole process, whose garbage collector allocates a little.
		{"allocations of a 4 KiB WRITE, over 1,000 queue pairs", at(short, Allocations), Measure{}, true, .01, 0},
		{"CPU time of an idle device with 1,000 queue pairs", at(idle, Idleness), Measure{}, true, 1, 0},
	}
}
