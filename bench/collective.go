package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
	"softrdma/coll"
)

// newCollectiveCommand returns the hidden command that bench starts as a rank of a group.
func newCollectiveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "collective CONFIG", Short: "A rank of a group, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c compare.CollectiveConfig
			if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
				return fmt.Errorf("configuration of a rank: %w", err)
			}
			if c.Bytes < 4 || c.Bytes > 1<<28 || c.Op != "all-reduce" {
				return fmt.Errorf("%s of %d bytes: expected all-reduce of 4 to %d", c.Op, c.Bytes, 1<<28)
			}
			ctx := cmd.Context()
			g, err := coll.World(ctx)
			if err != nil {
				return err
			}
			r, err := measureAllReduce(ctx, g, c)
			if err != nil {
				return err
			}
			if err := g.Close(ctx); err != nil || g.Rank() != 0 {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
}

// measureAllReduce repeats an all-reduce as bench/compare/testdata/mpi.c does.
func measureAllReduce(ctx context.Context, g *coll.Group, c compare.CollectiveConfig) (r loop.Result, err error) {
	out, err := coll.Alloc[float32](g, c.Bytes/4)
	if err != nil {
		return r, err
	}
	in, err := coll.Alloc[float32](g, c.Bytes/4)
	if err != nil {
		return r, err
	}
	const trial = 20
	repeat := func(n int) ([]float64, error) {
		took := make([]float64, n)
		if err := coll.Barrier(ctx, g); err != nil {
			return nil, err
		}
		for i := range took {
			began := time.Now()
			if err := coll.AllReduce(ctx, g, in, out, coll.Sum[float32]()); err != nil {
				return nil, err
			}
			took[i] = float64(time.Since(began).Nanoseconds()) / 1e3
		}
		return took, nil
	}
	if _, err = repeat(trial); err != nil { // sets up connections
		return r, err
	}
	took, err := repeat(trial)
	if err != nil {
		return r, err
	}
	sum := 0.
	for _, x := range took {
		sum += x
	}
	n := []int64{max(trial, min(1_000_000, int64(c.Seconds*1e6/(sum/trial))))}
	if err = coll.Broadcast(ctx, g, 0, n); err != nil {
		return r, err
	}
	if took, err = repeat(int(n[0])); err != nil {
		return r, err
	}
	slices.Sort(took)
	r.P50, r.P99 = took[len(took)/2], took[len(took)*99/100]
	return r, nil
}
