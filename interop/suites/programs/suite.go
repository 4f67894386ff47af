//go:build interop && linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"softrdma/interop/suites/rdmacore"
)

const (
	suiteName  = "suite: rdma-core's tests"
	suiteLimit = 5 * time.Minute

	builtSuiteName = "suite: tests of the rdma-core that was built here"
	// builtSuiteEnv names a tree of rdma-core of any version that its build.sh has built.
	builtSuiteEnv = "RDMA_CORE"
)

// rdmaCore runs the tests of rdma-core that match. It returns the results of the distribution's, and how many suites
// failed.
func (r *runner) rdmaCore(ctx context.Context, only *regexp.Regexp) (s suiteRun, failed int) {
	if only.MatchString(suiteName) && ctx.Err() == nil {
		var err error
		if s, err = r.distributionSuite(ctx); err != nil {
			fmt.Println(err)
			failed++
		}
	}
	if only.MatchString(builtSuiteName) && ctx.Err() == nil {
		if err := r.builtSuite(ctx); err != nil {
			fmt.Println(err)
			failed++
		}
	}
	return s, failed
}

// distributionSuite runs the tests of the distribution's rdma-core.
func (r *runner) distributionSuite(ctx context.Context) (suiteRun, error) {
	s, err := r.suite(ctx, suiteName, rdmacore.Commands)
	fmt.Println(s.summary())
	if err == nil {
		err = s.verdict()
	}
	return s, err
}

// builtSuite runs the tests of a newer rdma-core than the distribution's, with its own libraries.
func (r *runner) builtSuite(ctx context.Context) error {
	tree := os.Getenv(builtSuiteEnv)
	if tree == "" {
		fmt.Printf("%s: skipped: %s does not name a built tree\n", builtSuiteName, builtSuiteEnv)
		return nil
	}
	if _, err := os.Stat(filepath.Join(tree, "build/lib/libibverbs.so.1")); err != nil {
		return fmt.Errorf("%s: expected a tree of rdma-core that build.sh has built: %w", builtSuiteEnv, err)
	}
	s, err := r.suite(ctx, builtSuiteName, rdmacore.BuiltCommands)
	fmt.Println(s.summary())
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.rxe, func(name, _ string) bool { // the results on rxe are those of another version
		_, has := s.here[name]
		return !has
	})
	return s.verdict()
}

// suite runs rdma-core's own tests.
func (r *runner) suite(ctx context.Context, name, commands string) (suiteRun, error) {
	s := suiteRun{name: name}
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
	c, out := r.command(ctx, &program{}, 0, []string{"sh", "-c", commands})
	c.Dir = dir
	_ = c.Run() // the results are evaluated test by test
	log := strings.NewReplacer(" ", "-", ":", "", "'", "").Replace(name) + ".log"
	if err := os.WriteFile(filepath.Join(r.logs, log), []byte(out.String()), 0o644); err != nil {
		return s, err
	}
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	s.rxe = rxe
	s.here, err = rdmacore.Parse(strings.NewReader(out.String()))
	return s, err
}

// A suiteRun holds the suite's results here and on Linux's Soft RoCE.
type suiteRun struct {
	name      string
	here, rxe rdmacore.Results
}

// verdict is an error that names the tests that fail, and those that are skipped although Linux's Soft RoCE
// passes them.
func (s suiteRun) verdict() error {
	if behind := s.here.Behind(s.rxe); len(behind) > 0 {
		return fmt.Errorf("rdma-core's tests that fail, or that Linux's Soft RoCE passes: %v", behind)
	}
	return nil
}

func (s suiteRun) summary() string {
	n, passed, failed := len(s.here), s.here.Count(rdmacore.Passed), s.here.Count(rdmacore.Failed)
	return fmt.Sprintf("%s: %d, of which %d pass, %d are skipped, %d fail", s.name, n, passed, n-passed-failed, failed)
}
