package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"softrdma/bench/loop"
)

// RawMemoryName is the name of RawMemory.
const RawMemoryName = "raw memory"

// RawMemory measures what the processor and the kernel offer two processes of one machine,
// with package loop's loops. `bench memory` runs them.
type RawMemory struct {
	Path string // of this program
}

// Name returns RawMemoryName.
func (RawMemory) Name() string { return RawMemoryName }

// Check returns an error unless the system has futexes.
func (RawMemory) Check() error { return loop.CheckFutex() }

// Run implements Tool.
func (m RawMemory) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	argv, err := loop.MemoryConfig{Op: w.Op, Bytes: w.Bytes, Seconds: d.Seconds()}.Args(m.Path)
	if err != nil {
		return r, err
	}
	out, err := p.runClient(ctx, argv...)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("bench memory: %w", err)
	}
	return r, nil
}
