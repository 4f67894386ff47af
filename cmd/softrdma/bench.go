package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"softrdma/bench"
)

type benchOptions struct {
	paths  []string
	rounds int
	each   time.Duration
	only   []string
	json   bool
	html   string
}

func newBenchCommand() *cobra.Command {
	opt := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure softrdma beside the kernel's TCP and UDP, iperf3 and UCX",
		Long: `Runs softrdma and its peers side by side over the loopback, or between two
network namespaces (--paths, as root), in turn, several rounds, and prints each figure's ratio: the median of the rounds, the lowest and
the highest, and what it is to reach.

Peers are the kernel's TCP with cubic and its UDP (loops of softrdma's own, which
stand for the limit), iperf3, and ucx_perftest over TCP. One that is not
installed is named in the table.

Ratios count. Absolute figures hold for one machine, and only while nothing
else runs on it.`,
		Example: `  softrdma bench
  softrdma bench --rounds 9 --time 2s --json > bench.json
  softrdma bench --figures latency,rate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, opt) },
	}
	f := cmd.Flags()
	f.IntVar(&opt.rounds, "rounds", 5, "measurements of each")
	f.DurationVar(&opt.each, "time", time.Second, "time of one measurement")
	f.StringSliceVar(&opt.only, "figures", nil, "only figures whose names contain one of these words")
	f.StringSliceVar(&opt.paths, "paths", []string{"loopback"}, "loopback, veth1500, veth9000 (between two network namespaces; root)")
	f.BoolVar(&opt.json, "json", false, "print one JSON array, a table a path")
	f.StringVar(&opt.html, "html", "", "write tables and plots over the message size to `FILE`; takes much longer")
	cmd.AddCommand(newBenchEndCommand())
	return cmd
}

func runBench(cmd *cobra.Command, opt *benchOptions) error {
	if opt.rounds < 1 || opt.each < 10*time.Millisecond {
		return usageErrorf("expected at least one round of 10ms, found %d of %v", opt.rounds, opt.each)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var tables []*bench.Table
	var plots []bench.Plot
	for _, name := range opt.paths {
		t, more, err := benchPath(cmd, opt, self, name)
		if err != nil {
			return err
		}
		tables, plots = append(tables, t), append(plots, more...)
		if opt.json {
			continue
		}
		if err := printBench(cmd.OutOrStdout(), t); err != nil {
			return err
		}
	}
	if opt.html != "" {
		if err := writePage(opt.html, tables, plots); err != nil {
			return err
		}
	}
	if !opt.json {
		return nil
	}
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(tables)
}

func writePage(name string, tables []*bench.Table, plots []bench.Plot) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(bench.WriteHTML(f, tables, plots), f.Close())
}

// benchPath measures on one path.
func benchPath(cmd *cobra.Command, opt *benchOptions, self, name string) (*bench.Table, []bench.Plot, error) {
	path, err := openPath(name)
	if err != nil {
		return nil, nil, err
	}
	defer path.Close()
	run := &bench.Run{
		Path: path, Rounds: opt.rounds, Each: opt.each, Figures: choose(bench.Figures(name == "loopback"), opt.only),
		Tools: []bench.Tool{bench.Softrdma{Path: self}, bench.Kernel{Path: self}, bench.Iperf3{}, bench.UCX{}},
	}
	if len(run.Figures) == 0 {
		return nil, nil, usageErrorf("--figures: no figure's name contains %s", strings.Join(opt.only, " or "))
	}
	if notes := cmd.ErrOrStderr(); isTerminal(notes) {
		run.Progress = func(done, all int, w bench.Work) {
			fmt.Fprintf(notes, "\r\033[K%s %d/%d %v", path.Name, done+1, all, w)
		}
		defer fmt.Fprint(notes, "\r\033[K")
	}
	t, err := run.Do(cmd.Context())
	if err != nil || opt.html == "" {
		return t, nil, err
	}
	plots, err := run.Sweep(cmd.Context())
	for i := range plots {
		plots[i].Title += " (" + path.Name + ")"
	}
	return t, plots, err
}

func openPath(name string) (*bench.Path, error) {
	switch name {
	case "loopback":
		return bench.Loopback(), nil
	case "veth1500":
		return bench.Veth(1500)
	case "veth9000":
		return bench.Veth(9000)
	}
	return nil, usageErrorf("--paths: expected loopback, veth1500 or veth9000, found %q", name)
}

func choose(all []bench.Figure, words []string) (chosen []bench.Figure) {
	for _, f := range all {
		take := len(words) == 0
		for _, w := range words {
			take = take || strings.Contains(strings.ToLower(f.Name), strings.ToLower(w))
		}
		if take {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// printBench prints the table as docs/performance.md has it.
func printBench(out io.Writer, t *bench.Table) error {
	w := table.NewWriter()
	w.SetTitle("%s, median of %d rounds", t.Path, t.Rounds)
	w.AppendHeader(table.Row{"figure", "softrdma", "peer", "ratio", "lowest–highest", "gate", "stretch", ""})
	var lacks []string
	for _, r := range t.Rows {
		bound := r.Figure.Bound()
		limits := table.Row{fmt.Sprintf("%s %g", bound, r.Gate), fmt.Sprintf("%s %g", bound, r.Stretch)}
		if r.Lack != "" {
			lacks = append(lacks, fmt.Sprintf("%s: %s", r.Name, oneLine(fmt.Errorf("%s", r.Lack))))
			w.AppendRow(append(append(table.Row{r.Name, "", "", "–", ""}, limits...), "missing"))
			continue
		}
		unit := func(v float64) string { return fmt.Sprintf("%.3g %s", v, r.Unit) }
		w.AppendRow(append(append(table.Row{r.Name, unit(r.Of), unit(r.Against), fmt.Sprintf("%.2f", r.Ratio),
			fmt.Sprintf("%.2f–%.2f", r.Low, r.High)}, limits...), r.Verdict()))
	}
	if _, err := fmt.Fprintln(out, w.Render()); err != nil {
		return err
	}
	for _, l := range lacks {
		if _, err := fmt.Fprintln(out, "missing:", l); err != nil {
			return err
		}
	}
	return nil
}

// newBenchEndCommand is one end of the kernel's loops, which bench starts.
func newBenchEndCommand() *cobra.Command {
	c := &bench.EndConfig{}
	var kind, local, peer string
	cmd := &cobra.Command{
		Use: "end", Short: "One end of a loop over the kernel's UDP or TCP, which bench starts", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			c.Kind = bench.Kind(kind)
			if c.Local, err = netip.ParseAddr(local); err != nil {
				return usageErrorf("--local: %w", err)
			}
			if c.Peer, err = netip.ParseAddr(peer); err != nil {
				return usageErrorf("--peer: %w", err)
			}
			return bench.RunEnd(cmd.Context(), c, json.NewEncoder(cmd.OutOrStdout()).Encode)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.Server, "server", false, "serve")
	f.StringVar(&c.Op, "op", bench.OpUDP, "udp or tcp")
	f.StringVar(&kind, "kind", string(bench.Stream), "stream or ping")
	f.StringVar(&local, "local", "", "this end's address")
	f.StringVar(&peer, "peer", "", "the other end's address")
	f.Uint16Var(&c.Port, "port", 0, "port; the next one is used as well")
	f.IntVar(&c.Bytes, "bytes", 0, "bytes of a message")
	f.IntVar(&c.Segment, "segment", 4096+32, "bytes of a datagram of a stream over UDP")
	f.BoolVar(&c.Events, "events", false, "sleep in the kernel")
	f.Float64Var(&c.Seconds, "seconds", 1, "time")
	return cmd
}
