package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The operations of MemoryConfig.
const (
	OpMemcpy    = "memcpy"     // one core copies between two buffers
	OpCacheLine = "cache line" // two processes write and poll words in shared memory
	OpFutex     = "futex"      // two processes wake each other by a futex in shared memory
)

// A MemoryConfig configures a loop over memory. Encoded as JSON it is the argument of
// `bench memory`.
type MemoryConfig struct {
	Op      string  `json:"op"`
	Bytes   int     `json:"bytes"` // of a copy
	Seconds float64 `json:"seconds"`
	Echo    bool    `json:"echo"` // the second process, which the first one starts
}

// ParseMemoryConfig parses and checks the argument of `bench memory`.
func ParseMemoryConfig(text string) (*MemoryConfig, error) {
	c := &MemoryConfig{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("configuration of a loop: %w", err)
	}
	switch {
	case c.Op != OpMemcpy && c.Op != OpCacheLine && c.Op != OpFutex:
		return nil, fmt.Errorf("operation: expected %s, %s or %s, found %q", OpMemcpy, OpCacheLine, OpFutex, c.Op)
	case c.Op == OpMemcpy && (c.Bytes < 1 || c.Bytes > 1<<30):
		return nil, fmt.Errorf("bytes of a copy: expected 1 to %d, found %d", 1<<30, c.Bytes)
	case !(c.Seconds > 0) || c.Seconds > 3600:
		return nil, fmt.Errorf("seconds: expected up to 3600, found %v", c.Seconds)
	}
	return c, nil
}

// Args returns the command line of the loop.
func (c MemoryConfig) Args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "memory", string(text)}, err
}

// RunMemory runs a loop, for `bench memory`, and says its Result. path is that
// of the command.
func RunMemory(ctx context.Context, path string, c *MemoryConfig, say func(any) error) error {
	if c.Op == OpMemcpy {
		return say(memcpy(c.Bytes, seconds(c.Seconds)))
	}
	if c.Echo {
		return echo(c)
	}
	r, err := pingPong(ctx, path, c)
	if err != nil {
		return err
	}
	return say(r)
}

// copyPiece is the length of one copy. Go copies 1 MiB and more with non-temporal
// stores, which take almost twice the time while both buffers are in the cache.
const copyPiece = 64 << 10

// memcpy copies n bytes between two buffers again and again.
func memcpy(n int, d time.Duration) Result {
	from, to := make([]byte, n), make([]byte, n)
	for i := range from {
		from[i], to[i] = 1, 2 // avoid page faults during the measurement
	}
	copies := 0
	start := time.Now()
	for time.Since(start) < d {
		for at := 0; at < n; at += copyPiece {
			copy(to[at:min(at+copyPiece, n)], from[at:])
		}
		copies++
	}
	rate := float64(copies) / time.Since(start).Seconds()
	return Result{Throughput: rate * float64(n), Rate: rate}
}
