package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"softrdma/bench/compare"
	"softrdma/verbs"
)

// runLoss measures goodput over a relay.
func runLoss(cmd *cobra.Command, opt *options, self string) error {
	softrdma := func(c verbs.CongestionControl, r verbs.Recovery) compare.Sender {
		return compare.RDMASender{Softrdma: compare.Softrdma{Path: opt.softrdma, Congestion: string(c)}, Recovery: string(r)}
	}
	cubic, bbr := compare.TCPSender{Path: self, Control: "cubic"}, compare.TCPSender{Path: self, Control: "bbr"}
	chosen := verbs.CongestionControl(opt.congestion)
	run := &compare.LossRun{
		Network: compare.LossNetwork(), Rounds: opt.rounds, Each: opt.each,
		Senders:     []compare.Sender{softrdma(chosen, ""), softrdma(chosen, verbs.GoBackN), cubic, bbr},
		Impairments: slices.DeleteFunc(compare.Impairments(), func(c compare.Impairment) bool { return !matches(c.String(), opt.only) }),
		Shares: compare.ShareRuns([]compare.Sender{
			softrdma(verbs.CongestionWindow, ""), softrdma(verbs.CongestionDCQCN, ""), softrdma(verbs.CongestionDelay, ""), cubic,
		}),
	}
	run.Shares = append(run.Shares, compare.RivalRuns(softrdma(chosen, ""), []compare.Sender{cubic, bbr, softrdma(chosen, "")})...)
	run.Shares = slices.DeleteFunc(run.Shares, func(s compare.ShareRun) bool { return !matches(s.String(), opt.only) })
	if len(run.Impairments)+len(run.Shares) == 0 {
		return fmt.Errorf("--figures: no impairment's name contains %s", strings.Join(opt.only, " or "))
	}
	relay, err := compare.NewRelay()
	if err != nil {
		return err
	}
	defer relay.Close()
	run.Path, run.Relay = relay.Path, relay
	var done func()
	run.Progress, done = progress(cmd.ErrOrStderr(), "relay", time.Now)
	t, err := run.Do(cmd.Context())
	done()
	return errors.Join(err, reportLoss(cmd, opt, t))
}

// reportLoss prints the tables, and writes the page if there is to be one.
func reportLoss(cmd *cobra.Command, opt *options, t *compare.LossTable) error {
	if opt.html != "" {
		if err := writePage(opt.html, func(w io.Writer) error { return t.WriteHTML(w, origin(opt.version), opt.gates) }); err != nil {
			return err
		}
	}
	if opt.json {
		return writeJSON(cmd.OutOrStdout(), t)
	}
	fmt.Fprintln(cmd.OutOrStdout(), origin(opt.version))
	return printLoss(cmd.OutOrStdout(), t, opt.gates)
}

// printLoss prints the tables, with gates in the format of docs/performance.md.
func printLoss(out io.Writer, t *compare.LossTable, gates bool) error {
	parts := []string{impairmentTable(t), figures(gates)("the median round of "+plural(t.Rounds, "round"), t.Figures), shareTable(t)}
	for _, l := range t.Missing {
		parts = append(parts, "missing: "+oneLine(l))
	}
	parts = append(parts, "relay: "+t.Account.String())
	if t.Disturbed > 0 {
		parts = append(parts, fmt.Sprintf("%d measurements were repeated because the relay was late: something else keeps this machine busy", t.Disturbed))
	}
	for _, p := range parts {
		if p == "" {
			continue
		}
		if _, err := fmt.Fprintln(out, p); err != nil {
			return err
		}
	}
	return nil
}

// impairmentTable shows the goodput of each sender under each impairment.
func impairmentTable(t *compare.LossTable) string {
	if len(t.Rows) == 0 {
		return ""
	}
	w := table.NewWriter()
	w.SetTitle("goodput in Mbit/s over %g Mbit/s with a queue of %d KiB, median of %d rounds", float64(t.Network.Rate)/1e6, t.Network.Queue>>10, t.Rounds)
	header := table.Row{"round trip", "late", "lost"}
	for _, s := range t.Senders {
		header = append(header, s)
	}
	w.AppendHeader(header)
	for i := range t.Rows {
		r := &t.Rows[i]
		row := table.Row{r.Trip, fmt.Sprintf("%g %%", 100*r.Reorder), fmt.Sprintf("%g %%", 100*r.Loss)}
		for _, g := range r.Goodput {
			row = append(row, fmt.Sprintf("%.1f", g/1e6))
		}
		w.AppendRow(row)
	}
	return w.Render()
}

// shareTable shows how flows share a bottleneck.
func shareTable(t *compare.LossTable) string {
	if len(t.Shares) == 0 {
		return ""
	}
	w := table.NewWriter()
	w.SetTitle("flows through one port; that of the sixteen marks packets")
	w.AppendHeader(table.Row{"sender", "flows", "Mbit/s", "fairness", "lowest", "longest queue", "dropped", "marked", "", "of each"})
	for i := range t.Shares {
		s := &t.Shares[i]
		if s.Missing != "" {
			w.AppendRow(table.Row{s.Sender, s.Flows, "–", "", "", "", "", "", "missing: " + s.Missing})
			continue
		}
		var each []string
		for _, bits := range s.Shares {
			each = append(each, fmt.Sprintf("%.0f", bits/1e6))
		}
		verdict := "below"
		if s.Reached() {
			verdict = "gate"
		}
		w.AppendRow(table.Row{s.Sender, s.Flows, fmt.Sprintf("%.0f", s.Bits/1e6), fmt.Sprintf("%.3f", s.Fairness), fmt.Sprintf("%.3f", s.Lowest),
			fmt.Sprintf("%d KiB", s.Peak>>10), s.Dropped, s.Marked, verdict, strings.Join(each, " : ")})
	}
	return w.Render()
}
