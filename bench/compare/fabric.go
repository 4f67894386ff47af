package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"softrdma/bench/loop"
)

// Names of the tools that measure softrdma on an InfiniBand fabric in software.
const (
	FabricName = "softrdma fabric"
	TrunkName  = "softrdma fabric with a trunk"
)

// fabricDirectory is the environment variable that names the directory in which programs find
// fabrics.
const fabricDirectory = "SOFTRDMA_FABRIC_DIR"

// Fabric measures `softrdma perf` between two adapters of a fabric: two switches are between them,
// in one process, or with Trunk in two, which a trunk joins.
type Fabric struct {
	Path  string // of the command
	Trunk bool
}

// Name returns FabricName or TrunkName.
func (f Fabric) Name() string {
	if f.Trunk {
		return TrunkName
	}
	return FabricName
}

// Check returns an error unless the system can run fabrics.
func (Fabric) Check() error {
	if runtime.GOOS != "linux" {
		return errors.New("fabrics run on Linux only")
	}
	return nil
}

// Run implements Tool.
func (f Fabric) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	dir, err := os.MkdirTemp("", "softrdma-bench-")
	if err != nil {
		return Result{}, fmt.Errorf("directory of the fabrics: %w", err)
	}
	defer os.RemoveAll(dir)
	on := *p
	on.close = nil
	for end := range on.Inside {
		on.Inside[end] = append(append([]string(nil), p.Inside[end]...), "env", fabricDirectory+"="+dir)
	}
	on.devices = [2]string{"ib:bench/node-0", "ib:bench/node-1"}
	ups := [][]string{{"--name", "bench", "--topology", "mesh:2,hosts=1"}}
	if f.Trunk {
		ends := [2]string{"127.0.0.1:" + strconv.Itoa(int(loop.FreePort())), "127.0.0.1:" + strconv.Itoa(int(loop.FreePort()))}
		on.devices[server] = "ib:far/p1-node-0"
		ups = [][]string{
			{"--name", "bench", "--topology", "star:2,spare=1", "--listen", ends[0], "--trunk", "switch-0:3=" + ends[1]},
			{"--name", "far", "--topology", "star:2,spare=1,part=1", "--no-sm", "--listen", ends[1], "--trunk", "p1-switch-0:3=" + ends[0]},
		}
	}
	for i, flags := range ups {
		ready := "set it up"
		if i > 0 {
			ready = "No subnet manager"
		}
		up, _, err := on.startServer(ctx, ready, append([]string{f.Path, "fabric", "up"}, flags...)...)
		if err != nil {
			return Result{}, err
		}
		defer up.stop()
	}
	return f.measure(ctx, &on, w, d)
}

// joinTime is how long two fabrics may take to become one subnet.
const joinTime = 10 * time.Second

// measure measures, again if the far end was not there yet.
func (f Fabric) measure(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		r, err = Softrdma{Path: f.Path}.Run(ctx, p, w, d)
		if err == nil || !f.Trunk || ctx.Err() != nil || time.Since(begin) > joinTime {
			return r, err
		}
	}
}

// fabricFigures returns the figures of fabrics, beside two devices on UDP.
func fabricFigures() []Figure {
	stream, ping := Work{Tool: "softrdma", Kind: Stream, Op: "write", Bytes: block}, Work{Tool: "softrdma", Kind: Ping, Op: "write", Bytes: word}
	figure := func(name, tool string, of Work, m Metric, gate, stretch float64) Figure {
		against := of
		of.Tool = tool
		return Figure{"fabric: " + name + ", of UDP", Measure{of, m}, Measure{against, m}, m == P50, gate, stretch}
	}
	return []Figure{
		figure("64 KiB WRITE over two switches", FabricName, stream, Throughput, .5, .8),
		figure("8 B WRITE latency over two switches", FabricName, ping, P50, 3, 2),
		figure("64 KiB WRITE over a trunk", TrunkName, stream, Throughput, 0, 0),
		figure("8 B WRITE latency over a trunk", TrunkName, ping, P50, 0, 0),
	}
}
