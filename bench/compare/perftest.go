package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"softrdma/bench/loop"
)

// RxeName is the name of Perftest, which measures Linux's Soft RoCE.
const RxeName = "rxe"

// Perftest measures an RDMA device of the path's kernel with perftest. Both ends use
// the same device.
type Perftest struct {
	Device string // rxe0
	GID    int    // index of the GID to use
}

// Name returns RxeName.
func (Perftest) Name() string { return RxeName }

// Check returns an error unless perftest is installed.
func (Perftest) Check() error { return installed("ib_write_bw", "perftest") }

// The number of messages is fixed, because perftest's shortest duration is several
// seconds. These rates take rxe about a second in an emulated machine.
const (
	blocksPerSecond = 400
	wordsPerSecond  = 8000
	pingsPerSecond  = 1000
	perftestNative  = 40 // factor for processors that are not emulated

	// An emulator translates code when it first runs. Fewer messages than these measure
	// mostly that.
	leastBlocks = 1200
	leastPings  = 3000
)

// Run implements Tool.
func (t Perftest) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	return t.under(ctx, [2][]string{}, p, w, d)
}

// under runs both ends with prefixes of their command lines.
func (t Perftest) under(ctx context.Context, prefix [2][]string, p *Path, w Work, d time.Duration) (Result, error) {
	program, rate, least := "ib_"+w.Op+"_bw", blocksPerSecond*block/max(w.Bytes, block), leastBlocks*block/max(w.Bytes, block)
	switch {
	case w.Kind == Ping:
		program, rate, least = "ib_"+w.Op+"_lat", pingsPerSecond, leastPings
	case w.Bytes <= word:
		rate = wordsPerSecond
	}
	if p.machine == nil {
		rate *= perftestNative
		least = 100
	}
	// perftest buffers its output unless it is a terminal.
	argv := []string{"stdbuf", "-oL", program, "-F", "-d", t.Device, "-x", strconv.Itoa(t.GID), "-p", strconv.Itoa(int(loop.FreePort())),
		"-s", strconv.Itoa(w.Bytes), "-n", strconv.Itoa(max(least, int(float64(rate)*d.Seconds())))}
	if w.MTU != 0 {
		argv = append(argv, "-m", strconv.Itoa(w.MTU))
	}
	if w.Kind == Stream {
		argv = append(argv, "-t", strconv.Itoa(streamDepth(w.Bytes)))
	}
	serve := slices.Concat(prefix[server], argv)
	ask := slices.Concat(prefix[client], argv, []string{p.Server.String()})
	for tries := 1; ; tries++ {
		out, err := p.run(ctx, "Waiting for client", serve, ask)
		if err != nil {
			return Result{}, err
		}
		if r, err := parsePerftest(string(out), w.Kind); !errors.Is(err, errClock) || tries == clockTries {
			return r, err
		}
	}
}

// errClock is returned for a row of zeros. perftest prints one if the machine pauses
// while perftest measures the frequency of the processor's clock.
var errClock = errors.New("perftest measured a wrong clock frequency and printed zeros")

const clockTries = 3

// parsePerftest parses the row of a test of one size: the line after the one that
// begins with #bytes.
func parsePerftest(out string, kind Kind) (Result, error) {
	_, rows, found := strings.Cut(out, "#bytes")
	_, rows, _ = strings.Cut(rows, "\n")
	row, _, _ := strings.Cut(rows, "\n")
	var v []float64
	var err error
	for _, word := range strings.Fields(row) {
		f, e := strconv.ParseFloat(strings.TrimPrefix(word, "-"), 64) // the only negative value is -nan
		v, err = append(v, f), errors.Join(err, e)
	}
	switch {
	case !found || err != nil:
	case len(v) > 4 && v[4] == 0:
		return Result{}, errClock
	case kind == Stream && len(v) == 5: // bytes, iterations, peak and average MiB/s, Mpps
		return Result{Result: loop.Result{Throughput: v[0] * v[4] * 1e6, Rate: v[4] * 1e6}}, nil
	case kind == Ping && len(v) == 9: // …, min, max, typical, average, deviation, 99 %, 99.9 %
		return Result{Result: loop.Result{P50: v[4], P99: v[7]}}, nil
	}
	return Result{}, fmt.Errorf("perftest: expected a row of results, found %q", strings.TrimSpace(row))
}
