package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// MaxCrowd is how many queue pairs a crowd may have.
const MaxCrowd = 1 << 20

// A CrowdConfig is what one end of a measurement over many queue pairs is told:
// as JSON, the one argument of `softrdma bench crowd`. The client connects them
// all to the server's, which tells it theirs over TCP. With Bytes it WRITEs
// messages over them in turn, all from the same memory to the same memory, and
// otherwise it lets them be idle.
type CrowdConfig struct {
	Server  bool    `json:"server"`
	Device  string  `json:"device"`
	Address string  `json:"address"` // of the server, host and TCP port
	QPs     int     `json:"qps"`
	Bytes   int     `json:"bytes"` // of a message
	Seconds float64 `json:"seconds"`
}

// crowdFlight is how many bytes are under way at a time over all queue pairs,
// and crowdDepth how many messages.
const (
	crowdFlight = 8 << 20
	crowdDepth  = 1024
)

// Flight is how many messages are under way at a time.
func (c *CrowdConfig) Flight() int { return max(1, min(crowdFlight/max(c.Bytes, 1), crowdDepth)) }

// Depth is how many of them a queue pair has at most.
func (c *CrowdConfig) Depth() int { return max(1, c.Flight()/c.QPs) }

// Duration is for how long it is measured.
func (c *CrowdConfig) Duration() time.Duration { return seconds(c.Seconds) }

// ParseCrowdConfig reads what args wrote.
func ParseCrowdConfig(text string) (*CrowdConfig, error) {
	c := &CrowdConfig{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("an end's orders: %w", err)
	}
	switch {
	case c.QPs < 1 || c.QPs > MaxCrowd:
		return nil, fmt.Errorf("queue pairs: expected 1 to %d, found %d", MaxCrowd, c.QPs)
	case c.Bytes < 0 || c.Bytes > 1<<24:
		return nil, fmt.Errorf("bytes of a message: expected up to %d, found %d", 1<<24, c.Bytes)
	case !(c.Seconds > 0) || c.Seconds > 3600:
		return nil, fmt.Errorf("seconds: expected up to 3600, found %v", c.Seconds)
	}
	return c, nil
}

func (c CrowdConfig) args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "bench", "crowd", string(text)}, err
}

// crowd runs both ends.
func (s Softrdma) crowd(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	c := CrowdConfig{
		Device: p.device(client), Address: fmt.Sprintf("%v:%d", p.Server, freePort()), QPs: w.QPs, Bytes: w.Bytes, Seconds: d.Seconds(),
	}
	ask, err := c.args(s.Path)
	if err != nil {
		return r, err
	}
	c.Server, c.Device = true, p.device(server)
	serve, err := c.args(s.Path)
	if err != nil {
		return r, err
	}
	out, err := p.run(ctx, "ready", serve, ask)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("bench crowd: %w", err)
	}
	return r, nil
}

// crowdFigures are what many queue pairs between two devices cost.
func crowdFigures() []Figure {
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
		// Of the whole process, whose collector allocates a little.
		{"allocations of a 4 KiB WRITE, over 1,000 queue pairs", at(short, Allocations), Measure{}, true, .01, 0},
		{"idle device with 1,000 queue pairs", at(idle, Idleness), Measure{}, true, 1, 0},
	}
}
