package nvme

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/storage/nvmeof/host"
)

const benchLong = `Measures reads and writes of a namespace: bandwidth, operations per second, and their latency.
Data is read into and written from registered memory.

--rw is the pattern, with fio's names: read and write go from the first byte to the last and
begin again, randread, randwrite and randrw choose blocks at random. randrw writes one
block of two. Patterns that write destroy what is in the namespace.

With --verify each written block has content of its own, and what was written is compared
whenever a block is read, and all of it at the end. It must be the only user of the blocks.` + pathsText

const benchExample = `  softrdma nvme bench -n nqn.2024-01.org.example:disk --rw randread -s 4K -t 32 HOST
  softrdma nvme bench -n nqn.2024-01.org.example:disk --rw randrw --verify --iters 100000 HOST OTHER`

// The patterns of accesses.
const (
	patternRead      = "read"
	patternWrite     = "write"
	patternRandRead  = "randread"
	patternRandWrite = "randwrite"
	patternRandRW    = "randrw"
)

var patterns = []string{patternRead, patternWrite, patternRandRead, patternRandWrite, patternRandRW}

// A bench is the command with its flags.
type bench struct {
	client
	id      uint32
	pattern string
	size    cli.ByteSize
	depth   int
	queues  int
	iters   int64
	seconds float64
	verify  bool
	json    bool
}

const (
	maxDepth         = 127 // of a queue, of which one entry is free
	defaultBenchTime = 5   // seconds
	defaultBenchSize = 4096
)

func newBench() *cobra.Command {
	b := &bench{size: defaultBenchSize}
	cmd := &cobra.Command{
		Use: "bench HOST[:PORT]... --subsystem NQN", Short: "Measure reads and writes of a namespace",
		Long: benchLong, Example: benchExample, Args: hosts,
		RunE: func(cmd *cobra.Command, args []string) error { return b.run(cmd.Context(), args) },
	}
	b.client.addFlags(cmd, true)
	b.client.addReconnectFlags(cmd)
	f := cmd.Flags()
	f.Uint32Var(&b.id, "namespace", 1, "`NUMBER` of the namespace")
	f.StringVar(&b.pattern, "rw", patternRead, "`PATTERN`: "+strings.Join(patterns, ", "))
	f.VarP(&b.size, "size", "s", "bytes of an access, a multiple of the block size")
	f.IntVarP(&b.depth, "depth", "t", 32, "`NUMBER` of accesses in flight on each queue")
	f.IntVar(&b.queues, "queues", 1, "`NUMBER` of I/O queues of each connection")
	f.Int64Var(&b.iters, "iters", 0, "`NUMBER` of accesses (default: as many as --duration allows)")
	f.Float64VarP(&b.seconds, "duration", "D", defaultBenchTime, "measure for `SECONDS`")
	f.BoolVar(&b.verify, "verify", false, "compare what is read with what was written")
	f.BoolVar(&b.json, "json", false, "print the results as one JSON object")
	cli.CompleteFlag(cmd, "rw", patterns...)
	return cmd
}

func (b *bench) check() error {
	switch {
	case !slices.Contains(patterns, b.pattern):
		return cli.UsageErrorf("--rw: expected one of %s; found %q", strings.Join(patterns, ", "), b.pattern)
	case b.depth < 1 || b.depth > maxDepth:
		return cli.UsageErrorf("--depth: expected 1 to %d, found %d", maxDepth, b.depth)
	case b.iters < 0 || b.seconds <= 0:
		return cli.UsageErrorf("--iters and --duration: expected more than 0, found %d and %v", b.iters, b.seconds)
	case b.verify && (b.pattern == patternRead || b.pattern == patternRandRead):
		return cli.UsageErrorf("--verify: expected a pattern that writes, found --rw %s", b.pattern)
	}
	return cli.NotBoth(b.cmd, "iters", "duration")
}

func (b *bench) run(ctx context.Context, args []string) error {
	if err := b.check(); err != nil {
		return err
	}
	cfg := host.Config{Queues: b.queues, QueueSize: b.depth + 1}
	return b.connect(ctx, args, cfg, func(s *host.Subsystem) error {
		n, err := s.Namespace(ctx, b.id)
		if err != nil {
			return err
		}
		most, _ := n.MaxCommand()
		if size := int(b.size); size < n.BlockSize() || size > most || size%n.BlockSize() != 0 || int64(size) > n.Size() {
			return cli.UsageErrorf("--size: expected a multiple of %d from %d to %d, found %d", n.BlockSize(), n.BlockSize(), min(int64(most), n.Size()), size)
		}
		return b.measure(ctx, s, n)
	})
}

// A benchReport is the result in JSON.
type benchReport struct {
	Pattern   string        `json:"pattern"`
	Subsystem string        `json:"subsystem"`
	Namespace uint32        `json:"namespace"`
	Targets   []string      `json:"targets"`
	Queues    int           `json:"queues"`
	Depth     int           `json:"depth"`
	Results   []benchResult `json:"results"`
	Verified  int64         `json:"verified,omitempty"` // blocks that were read and compared
	Lost      int64         `json:"connections_lost,omitempty"`
}

// A benchResult is the result of one operation.
type benchResult struct {
	Operation string `json:"operation"`
	measure.Rate
	Latency measure.LatencyResult `json:"latency"`
}

func (b *bench) measure(ctx context.Context, s *host.Subsystem, n *host.Namespace) (err error) {
	r := newRun(b, n)
	if r.memory, err = n.Alloc(r.total() * int(b.size)); err != nil {
		return err
	}
	// Commands that wait for a connection end with it.
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	defer func() { err = errors.Join(err, r.memory.Free()) }()
	if err := r.run(ctx); err != nil {
		return err
	}
	report := benchReport{
		Pattern: b.pattern, Subsystem: b.subsystem, Namespace: b.id, Queues: b.queues, Depth: b.depth, Results: r.results(),
		Verified: r.verified, Lost: b.lost.Load(),
	}
	for _, c := range s.Controllers() {
		report.Targets = append(report.Targets, c.Addr())
	}
	out := b.cmd.OutOrStdout()
	if b.json {
		return cli.WriteJSON(out, report)
	}
	report.print(out)
	return nil
}

// print prints the results as softrdma perf does.
func (r *benchReport) print(out io.Writer) {
	rule := strings.Repeat("-", len(measure.LatencyHeader)+1)
	fmt.Fprintf(out, "%s\nNVMe %s test\n %s, namespace %d, target %s, %s, depth %d\n%s\n",
		rule, r.Pattern, r.Subsystem, r.Namespace, strings.Join(r.Targets, ", "), cli.Plural(r.Queues, "queue"), r.Depth, rule)
	for _, x := range r.Results {
		if len(r.Results) > 1 {
			fmt.Fprintf(out, " %ss\n", x.Operation)
		}
		fmt.Fprintf(out, "%s\n%v\n%s\n%v\n", measure.RateHeader, x.Rate, measure.LatencyHeader, x.Latency)
	}
	if r.Verified > 0 {
		fmt.Fprintf(out, " %d blocks compared, none wrong\n", r.Verified)
	}
	fmt.Fprintln(out, rule)
}

// limit returns when accesses end.
func (b *bench) limit() time.Duration {
	if b.iters > 0 {
		return 1<<63 - 1
	}
	return time.Duration(b.seconds * float64(time.Second))
}
