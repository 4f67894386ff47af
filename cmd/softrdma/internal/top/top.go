// Package top is the command that shows what the devices of this user's programs do.
//
// A sampler asks the programs on their control sockets (package sampler). A [model] is a function of samples and
// keys alone: it compares two samples ([compare]), sorts, filters and renders the lines of the screen.
// The loop of the terminal is bubbletea's (version 2, without lipgloss): it reads keys, draws what has
// changed and follows the window's size. It queries the terminal when it runs, not when it is imported:
// commands that do not use it start at most 0.3 ms later.
package top

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/control"
	"softrdma/internal/sampler"
)

const long = `Shows the devices of all programs of this user on this host, and their queue pairs:
rates, round trips, retransmissions, windows, and the reasons of refusals. Programs
are Go programs, those of softrdma exec and softrdma env, and daemons. No program
has to be started in a special way.

Keys: tab changes between the tables, enter opens a queue pair with its last
refusals and packets, s sorts, / filters, ? lists all keys, q quits.

Without a terminal, and on one that cannot move its cursor (TERM=dumb), the tables
are printed at each interval; --once prints them once. With --json each sample is an
object on a line. --follow prints events as they happen: changes of state, refusals
and failed completions; with --json an object on a line for each.`

const example = `  softrdma top                          show all, q quits
  softrdma top --filter ib_write_bw     only that program
  softrdma top --once                   print a table
  softrdma top --once --json | jq '.processes[].devices[] | {name, rates}'
  softrdma top --follow                 print refusals and changes of state`

// A command is the command with its flags.
type command struct {
	once, asJSON, follow bool
	interval             time.Duration
	filter               string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "top", Short: "Show what the devices of this user's programs do",
		Long: long, Example: example, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.once, "once", false, "print one table, of what happens in an interval")
	f.BoolVar(&c.asJSON, "json", false, "print objects, one on a line")
	f.BoolVar(&c.follow, "follow", false, "print events as they happen")
	f.DurationVar(&c.interval, "interval", time.Second, "`TIME` between samples")
	f.StringVar(&c.filter, "filter", "", "show only what contains this `TEXT`: program, PID, device, QPN, type, state, peer")
	return cmd
}

const leastInterval = 100 * time.Millisecond

func (c *command) run(cmd *cobra.Command) error {
	if err := cli.NotBoth(cmd, "once", "follow"); err != nil {
		return err
	}
	if c.interval < leastInterval {
		return cli.UsageErrorf("--interval: expected %v or longer, found %v", leastInterval, c.interval)
	}
	if control.Directory() == "" {
		return errors.New("SOFTRDMA_CONTROL_DIR is off, so no program can be asked")
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	switch {
	case c.follow:
		return c.runFollow(ctx, out, cmd.ErrOrStderr())
	case c.once || c.asJSON || !cli.IsTerminal(out) || !cli.IsTerminal(os.Stdin) || !usable():
		return c.print(ctx, out)
	}
	_, plain := os.LookupEnv("NO_COLOR")
	return runTerminal(ctx, os.Stdin, out, start(c.filter, plain), c.interval)
}

// each calls f with reports, an interval apart, until the context ends or f returns an error. The first
// report has rates, too.
func (c *command) each(ctx context.Context, f func(*report) error) error {
	var programs sampler.Sampler
	before := programs.Take(ctx, timeLimit(c.interval))
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := programs.Take(ctx, timeLimit(c.interval))
		if ctx.Err() != nil {
			return nil
		}
		if err := f(compare(before, now)); err != nil || c.once {
			return err
		}
		before = now
	}
}
