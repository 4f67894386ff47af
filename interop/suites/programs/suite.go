//go:build interop && linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"softrdma/interop/suites/rdmacore"
)

const (
	suiteName  = "suite: rdma-core's tests"
	suiteLimit = 5 * time.Minute
)

// suite runs rdma-core's own tests. Its error names the tests that fail, and those that are skipped
// although Linux's Soft RoCE passes them.
func (r *runner) suite(ctx context.Context) (suiteRun, error) {
	var s suiteRun
	rxe, err := rdmacore.Rxe()
	if err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "softrdma-suite-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeoutCause(ctx, suiteLimit, fmt.Errorf("not done after %v", suiteLimit))
	defer cancel()
	c, out := r.command(ctx, &program{}, 0, []string{"sh", "-c", rdmacore.Commands})
	c.Dir = dir
	_ = c.Run() // the results are evaluated test by test
	if err := os.WriteFile(filepath.Join(r.logs, "rdmacore.log"), []byte(out.String()), 0o644); err != nil {
		return s, err
	}
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	s.rxe = rxe
	if s.here, err = rdmacore.Parse(strings.NewReader(out.String())); err != nil {
		return s, err
	}
	if behind := s.here.Behind(rxe); len(behind) > 0 {
		return s, fmt.Errorf("rdma-core's tests that fail, or that Linux's Soft RoCE passes: %v", behind)
	}
	return s, nil
}

// A suiteRun holds the suite's results here and on Linux's Soft RoCE.
type suiteRun struct{ here, rxe rdmacore.Results }

func (s suiteRun) summary() string {
	n, passed, failed := len(s.here), s.here.Count(rdmacore.Passed), s.here.Count(rdmacore.Failed)
	return fmt.Sprintf("%s: %d, of which %d pass, %d are skipped, %d fail", suiteName, n, passed, n-passed-failed, failed)
}
