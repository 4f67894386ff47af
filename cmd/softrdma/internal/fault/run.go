package fault

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/faults/file"
)

// The timeout of a run, without --timeout: this many times the run without faults, and at least so long.
const (
	timeoutFactor = 10
	shortestLimit = 30 * time.Second
	cleanRunLimit = 10 * time.Minute
)

// runOptions holds the flags of run.
type runOptions struct {
	devices  []string
	protocol cli.Protocol
	engine   string
	all      bool
	junit    string
	asJSON   bool
	timeout  time.Duration
	seed     uint64
	wrong    string
	strict   bool
	verbose  bool
}

// run runs the program without faults and then under each scenario, and prints how it has ended.
func (s *runOptions) run(cmd *cobra.Command, names, program []string) error {
	wrong, err := s.pattern()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "softrdma-scenarios-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := s.files(cmd, dir, names)
	if err != nil {
		return err
	}
	if s.junit != "" {
		if err := cli.CheckFile(s.junit); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	clean, err := s.once(cmd, noScenario, "", program, wrong, or(s.timeout, cleanRunLimit))
	if err != nil {
		return err
	}
	if clean.Verdict != survived {
		return cli.WithCode(cli.ExitFailed, fmt.Errorf("the program fails without faults: %s: %s", clean.what(), clean.detail()))
	}
	limit := or(s.timeout, max(shortestLimit, timeoutFactor*time.Duration(clean.Seconds*float64(time.Second))))
	runs := []*outcome{clean}
	for i, file := range files {
		o, err := s.once(cmd, names[i], file, program, wrong, limit)
		if err != nil {
			return err
		}
		o.Slower = o.Seconds / clean.Seconds
		runs = append(runs, o)
	}
	if err := s.report(cmd.OutOrStdout(), strings.Join(program, " "), runs); err != nil {
		return err
	}
	return s.result(runs)
}

func or(a, b time.Duration) time.Duration {
	if a != 0 {
		return a
	}
	return b
}

func (s *runOptions) pattern() (*regexp.Regexp, error) {
	if s.wrong == "" {
		return differs, nil
	}
	r, err := regexp.Compile(s.wrong)
	if err != nil {
		return nil, cli.UsageErrorf("--wrong: %v", err)
	}
	return r, nil
}

// files writes the rules of each scenario, with the seed of --seed, to a file.
func (s *runOptions) files(cmd *cobra.Command, dir string, names []string) (files []string, err error) {
	for i, name := range names {
		rules, err := load(name)
		if err != nil {
			return nil, err
		}
		if cli.FlagGiven(cmd, "seed") {
			rules.Seed = s.seed
		}
		text, err := file.JSON(rules)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.json", i)) // JSON is YAML
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// once runs the program under one scenario.
func (s *runOptions) once(cmd *cobra.Command, name, file string, program []string, wrong *regexp.Regexp, limit time.Duration) (*outcome, error) {
	fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s ...\n", name)
	o, timedOut, err := execute(cmd.Context(), s.flags(file), program, limit)
	if err != nil {
		return nil, err
	}
	o.Scenario, o.Slower = name, 1
	o.judge(timedOut, wrong)
	if s.verbose {
		fmt.Fprint(cmd.ErrOrStderr(), o.output)
	}
	return o, nil
}

// flags returns the flags of softrdma exec.
func (s *runOptions) flags(file string) (flags []string) {
	for _, d := range s.devices {
		flags = append(flags, "--device="+d)
	}
	if s.protocol != "" {
		flags = append(flags, "--protocol="+string(s.protocol))
	}
	if s.engine != "" {
		flags = append(flags, "--engine="+s.engine)
	}
	if file != "" {
		flags = append(flags, "--faults="+file)
	}
	return flags
}

// report prints the runs, and writes the file of --junit.
func (s *runOptions) report(out io.Writer, program string, runs []*outcome) error {
	if s.junit != "" {
		text, err := junit(program, runs, s.strict)
		if err == nil {
			err = cli.WriteFile(s.junit, text)
		}
		if err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if s.asJSON {
		return cli.WriteJSON(out, runs)
	}
	t := cli.NewTable("scenario", "result", "hits", "status")
	for _, o := range runs {
		t.Row(o.Scenario, o.what(), o.hits(), o.detail())
	}
	return t.Print(out)
}

// result returns an error if a run counts as failed.
func (s *runOptions) result(runs []*outcome) error {
	var bad []string
	exit := cli.ExitFailed
	for _, o := range runs {
		if o.bad(s.strict) {
			bad = append(bad, fmt.Sprintf("%s: %s", o.Scenario, o.Verdict))
		}
		if o.Verdict == wrongBytes {
			exit = cli.ExitData
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return cli.WithCode(exit, fmt.Errorf("%d of %d scenarios: %s", len(bad), len(runs)-1, strings.Join(bad, ", ")))
}
