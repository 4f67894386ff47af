// Package simulate is the command that simulates scenarios of traffic on Ethernet.
package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/simulate"
	"softrdma/internal/simulate/scenario"
	"softrdma/internal/simulate/scenarios"
)

const long = `Simulates a scenario on virtual time: hosts on a network of Ethernet switches, with
RoCE v2. The transports are those of softrdma's devices, with their congestion controls
and their recovery from losses; switches have PFC, ECN and a shared buffer. Payloads do
not exist, and computing takes no time.

A SCENARIO is a file, or one of those that come with softrdma. Each of its variants is
simulated with the same traffic. Without devices and sockets, a simulation needs no
privileges and no network.

SLOWDOWN is how many times as long as in an empty network a message takes until it is
acknowledged. The same scenario and seed give the same output.`

const example = `  softrdma simulate incast
  softrdma simulate incast --seeds 10 --html incast.html
  softrdma simulate --show incast > mine.yaml
  softrdma simulate mine.yaml --json`

type options struct {
	seeds   int
	workers int
	seed    uint64
	html    string
	each    string
	show    string
	list    bool
	asJSON  bool
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "simulate [flags] SCENARIO", Short: "Simulate traffic on an Ethernet of many hosts",
		Long: long, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.list || o.show != "" {
				return cli.NoArgs(cmd, args)
			}
			return cli.Args(1, 1, "one SCENARIO, a file or a name of --list")(cmd, args)
		},
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.list:
				return list(cmd)
			case o.show != "":
				return show(cmd, o.show)
			}
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.seeds, "seeds", 1, "simulate with a `NUMBER` of seeds")
	f.IntVar(&o.workers, "workers", 0, "use a `NUMBER` of processors, all if 0: for a run each, or together for a large one")
	f.Uint64Var(&o.seed, "seed", 0, "use this `NUMBER` as the first seed instead of that of the scenario")
	f.StringVar(&o.html, "html", "", "also write a report with plots to `FILE`")
	f.StringVar(&o.each, "messages", "", "also write each message with its times to `FILE`, as comma-separated values")
	f.BoolVar(&o.asJSON, "json", false, "print a JSON object")
	f.BoolVar(&o.list, "list", false, "list the scenarios that come with softrdma")
	f.StringVar(&o.show, "show", "", "print the file of the scenario with this `NAME`, to read it or to change it")
	cli.CompleteFlag(cmd, "show", scenarios.Names()...)
	return cmd
}

// complete offers the names of scenarios, and files.
func complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}

func list(cmd *cobra.Command) error {
	t := cli.NewTable()
	for _, name := range scenarios.Names() {
		s, err := load(name)
		if err != nil {
			return err
		}
		t.Row(name, s.Title)
	}
	return t.Print(cmd.OutOrStdout())
}

func show(cmd *cobra.Command, name string) error {
	text, ok := scenarios.Text(name)
	if !ok {
		return cli.UsageErrorf("--show: expected one of %s; found %q", strings.Join(scenarios.Names(), ", "), name)
	}
	_, err := cmd.OutOrStdout().Write(text)
	return err
}

// load reads a scenario of softrdma, or a file.
func load(name string) (*scenario.Scenario, error) {
	text, ok := scenarios.Text(name)
	if !ok {
		var err error
		text, err = os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("expected a file or one of %s, found %q", strings.Join(scenarios.Names(), ", "), name)
		}
		if err != nil {
			return nil, cli.WithCode(cli.ExitUsage, err)
		}
	}
	s, err := scenario.Parse(name, text)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	return s, nil
}

// maxSeeds bounds the results that are kept.
const maxSeeds = 10_000

// maxWorkers is more than there are processors.
const maxWorkers = 1024

func (o *options) run(cmd *cobra.Command, name string) error {
	if o.seeds < 1 || o.seeds > maxSeeds {
		return cli.UsageErrorf("--seeds: expected 1 to %d, found %d", maxSeeds, o.seeds)
	}
	if o.workers < 0 || o.workers > maxWorkers {
		return cli.UsageErrorf("--workers: expected 0 to %d, found %d", maxWorkers, o.workers)
	}
	s, err := load(name)
	if err != nil {
		return err
	}
	for _, name := range []string{o.html, o.each} {
		if name == "" {
			continue
		}
		if err := cli.CheckFile(name); err != nil {
			return err
		}
	}
	first := s.Seed
	if cmd.Flags().Changed("seed") {
		first = o.seed
	}
	begin := time.Now()
	ctx := cmd.Context()
	var packets atomic.Uint64
	runs, err := simulate.RunAll(s, first, o.seeds, o.workers, func() bool { return ctx.Err() != nil },
		func(r *simulate.Result) { packets.Add(r.Packets) })
	if err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	fmt.Fprintf(cmd.ErrOrStderr(), "simulated %d packets in %.1f s: %.0f packets per second\n", packets.Load(), took, float64(packets.Load())/took)
	sum := simulate.Summarize(s, first, runs)
	if o.html != "" {
		page, err := html(s, sum)
		if err != nil {
			return err
		}
		if err := cli.WriteFile(o.html, page); err != nil {
			return err
		}
	}
	if o.each != "" {
		text, err := eachMessage(s, runs)
		if err != nil {
			return err
		}
		if err := cli.WriteFile(o.each, text); err != nil {
			return err
		}
	}
	if o.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), sum)
	}
	return print(cmd.OutOrStdout(), sum)
}
