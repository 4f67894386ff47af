package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RxeName is the name of Perftest: what it measures is Linux's Soft RoCE.
const RxeName = "rxe"

// Perftest measures the RDMA device of the path's kernel by perftest, both ends
// on that device.
type Perftest struct {
	Device string // rxe0
	GID    int    // index of the device's GID to use
}

// Name is RxeName.
func (Perftest) Name() string { return RxeName }

// Lack tells whether perftest is installed.
func (Perftest) Lack() error { return installed("ib_write_bw", "perftest") }

// Its messages are counted, since the shortest time that it can be told is
// several seconds: about as many as take rxe a second in an emulated machine.
const (
	blocksPerSecond = 400
	wordsPerSecond  = 8000
	pingsPerSecond  = 1000
)

// Run implements Tool.
func (t Perftest) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	return t.under(ctx, nil, p, w, d)
}

// under runs both ends under a program that command lines begin with.
func (t Perftest) under(ctx context.Context, prefix []string, p *Path, w Work, d time.Duration) (Result, error) {
	program, rate := "ib_"+w.Op+"_bw", blocksPerSecond*block/max(w.Bytes, block)
	switch {
	case w.Kind == Ping:
		program, rate = "ib_"+w.Op+"_lat", pingsPerSecond
	case w.Bytes <= word:
		rate = wordsPerSecond
	}
	// Its output is buffered where it is no terminal.
	serve := append(slices.Clone(prefix), "stdbuf", "-oL", program, "-F", "-d", t.Device, "-x", strconv.Itoa(t.GID), "-p", strconv.Itoa(int(freePort())),
		"-s", strconv.Itoa(w.Bytes), "-n", strconv.Itoa(max(100, int(float64(rate)*d.Seconds()))))
	if w.MTU != 0 {
		serve = append(serve, "-m", strconv.Itoa(w.MTU))
	}
	if w.Kind == Stream {
		serve = append(serve, "-t", strconv.Itoa(min(streamDepth(w.Bytes), 512)))
	}
	for tries := 1; ; tries++ {
		out, err := p.run(ctx, "Waiting for client", serve, append(serve[:len(serve):len(serve)], p.Server.String()))
		if err != nil {
			return Result{}, err
		}
		if r, err := parsePerftest(string(out), w.Kind); !errors.Is(err, errClock) || tries == clockTries {
			return r, err
		}
	}
}

// errClock is a row of zeros: perftest measures the processor's clock first, and
// a machine that pauses meanwhile leads it astray.
var errClock = errors.New("perftest has mistaken the processor's clock and found nothing")

const clockTries = 3

// parsePerftest reads the row of a test of one size: the first line below the
// one that begins with #bytes.
func parsePerftest(out string, kind Kind) (Result, error) {
	_, rows, found := strings.Cut(out, "#bytes")
	_, rows, _ = strings.Cut(rows, "\n")
	row, _, _ := strings.Cut(rows, "\n")
	var v []float64
	var err error
	for _, word := range strings.Fields(row) {
		f, e := strconv.ParseFloat(strings.TrimPrefix(word, "-"), 64) // nothing is below 0, but -nan
		v, err = append(v, f), errors.Join(err, e)
	}
	switch {
	case !found || err != nil:
	case len(v) > 4 && v[4] == 0:
		return Result{}, errClock
	case kind == Stream && len(v) == 5: // bytes, iterations, peak and average MiB/s, Mpps
		return Result{Throughput: v[0] * v[4] * 1e6, Rate: v[4] * 1e6}, nil
	case kind == Ping && len(v) == 9: // …, min, max, typical, average, deviation, 99 %, 99.9 %
		return Result{P50: v[4], P99: v[7]}, nil
	}
	return Result{}, fmt.Errorf("perftest: expected a row of results, found %q", strings.TrimSpace(row))
}
