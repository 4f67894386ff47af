package compare

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Names of the tools for groups of ranks on one host.
const (
	CollectiveName = "coll"
	MPIHostName    = "Open MPI"
)

// groupRanks is the number of ranks of a group.
const groupRanks = 4

// errOneHost is the error of a tool whose ranks need a path of one host.
var errOneHost = errors.New("ranks of a group are measured on one host only")

// Collective measures operations of package coll between ranks that `softrdma run` starts, on one
// host.
type Collective struct {
	Path  string // of softrdma
	Bench string // of this program
}

// A CollectiveConfig configures a rank. Encoded as JSON it is the argument of
// `bench collective`.
type CollectiveConfig struct {
	Op      string  `json:"op"`    // mpiAllReduce
	Bytes   int     `json:"bytes"` // of each rank's vector
	Seconds float64 `json:"seconds"`
}

// Name returns CollectiveName.
func (Collective) Name() string { return CollectiveName }

// Check returns nil: package coll is always available.
func (Collective) Check() error { return nil }

// Run implements Tool. P50 of the result is the time of one operation.
func (t Collective) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	if p.sameHost == "" {
		return r, errOneHost
	}
	text, err := json.Marshal(CollectiveConfig{Op: w.Op, Bytes: w.Bytes, Seconds: d.Seconds()})
	if err != nil {
		return r, err
	}
	err = p.runClientJSON(ctx, &r, t.Path, "run", "-n", strconv.Itoa(groupRanks), "--", t.Bench, "collective", string(text))
	return r, err
}

// collectiveFigures returns the figures of groups, compared with Open MPI as it is installed, which
// uses shared memory between the ranks of one host.
func collectiveFigures() []Figure {
	of := Work{Tool: CollectiveName, Kind: Ping, Op: mpiAllReduce, Bytes: 4 * mib}
	against := of
	against.Tool = MPIHostName
	return []Figure{{
		"msg: 4 MiB all-reduce of 4 ranks, of Open MPI", Measure{of, P50}, Measure{against, P50}, true, 1.43, 1, // the time of 0.7 of its speed
	}}
}
