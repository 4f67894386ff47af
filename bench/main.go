// Bench compares softrdma with other tools: the kernel's TCP and UDP, iperf3, UCX, Open MPI, gRPC
// and Linux's Soft RoCE. It is a module of its own, so that softrdma does not depend on its peers.
//
// Package compare runs the tools. This package chooses what to measure, prints the results, and is
// one end of some of the loops.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2/maybe"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
	"softrdma/internal/congestion"
	"softrdma/verbs"
)

type options struct {
	paths  []string
	rounds int
	each   time.Duration
	only   []string
	json   bool
	html   string
	gates  bool

	softrdma   string
	version    string // of softrdma
	congestion string
	loss       bool
}

const long = `Compares softrdma with other tools over the loopback, through the memory of one
machine, or between two network namespaces (--paths, the last as root). It runs them
in turn for several rounds. A ratio is computed within one round. For each figure it
prints the round whose ratio is the median: what softrdma reached, what the peer
reached, their ratio, and the verdict in words. --gates adds the lowest and highest
ratio and the targets of softrdma's developers: the gate, below which a change is
refused, and the stretch, which would be excellent.

--html writes a report, which grows with each round. It names the host, the date, the
version and the command. Progress is on standard error.

It also compares WRITEs over 1,000 and 100,000 queue pairs with those over one,
and measures what idle queue pairs cost (--figures "queue pair").

The other tools are the kernel's TCP with cubic and its UDP (loops of softrdma's
own, which show the limit), iperf3, and ucx_perftest over TCP. The table says
which of them are not installed.

With --paths host two processes of this machine use softrdma through memory
(--same-host require). The peers are a loop that copies memory on one core,
ping-pongs of two processes on a cache line and on a futex, ucx_perftest over
shared memory (posix,cma) and over TCP, iperf3, and for rdmanet the kernel's TCP.
It also compares perftest under an exec of each program with perftest on the device
of one daemon, and counts the wake-ups of an idle device. All other paths turn the
path through memory off.

On the loopback and with --paths host it also compares unmodified programs whose
devices are in their own processes (softrdma exec --engine program) with softrdma
perf and with TCP: perftest, ucx_perftest and Open MPI (--figures programs).

On the loopback it also compares two programs on an InfiniBand fabric in software
(softrdma fabric up), with two switches between them, with two programs on UDP
(--paths loopback --figures fabric:).

On the loopback it also compares softrdma perf while its metrics are scraped each
second and softrdma console is open with itself alone (--figures observed:).

With --paths guest it compares softrdma in a virtual machine with Linux's Soft
RoCE, measured by perftest. It also compares perftest under "softrdma exec" with
Soft RoCE, and with ucx_perftest over TCP and over shared memory (--figures exec).
This needs root and softrdma's source: the virtual machine is that of the
interoperability tests (make preload && cd bench && go run -tags interop .
--paths guest), which install missing packages from Debian.

With --loss it measures the goodput of softrdma, of softrdma with go-back-N and of
TCP with cubic and with bbr over a relay between two network namespaces (as root).
The relay loses 0 to 5 % of the packets, has round trips of 0.1 to 100 ms, and
delivers packets in order or 1 % of them late. It also measures how sixteen flows
share a bottleneck that marks packets (ECN), and how one flow shares a long path
with one of TCP (--figures beside).

bench builds the softrdma that it measures from the source above its directory;
--softrdma names another one.

Compare ratios only. Absolute figures are valid for one machine, and only while
nothing else runs on it.`

const example = `  go run .
  go run . --rounds 9 --time 2s --json > bench.json
  go run . --paths host
  go run . --figures latency,rate
  go run . --figures "queue pair"
  go run . --figures programs
  go run . --figures msg:
  go run . --paths loopback --figures observed: --rounds 9
  go run . --paths loopback --figures fabric:
  sudo go run -tags interop . --paths guest
  sudo go run -tags interop . --paths guest --figures exec
  sudo go run . --loss --rounds 3 --html loss.html
  sudo go run . --loss --figures "1ms with","16 flows"
  sudo go run . --loss --figures beside --rounds 3`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	opt := &options{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare softrdma with the kernel's TCP and UDP, iperf3 and UCX",
		Long:  long, Example: example, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, opt) },
	}
	f := cmd.Flags()
	f.IntVar(&opt.rounds, "rounds", 5, "`NUMBER` of rounds")
	f.DurationVar(&opt.each, "time", time.Second, "`DURATION` of one measurement")
	f.StringSliceVar(&opt.only, "figures", nil, "measure only figures, or with --loss impairments, whose names contain one of these `WORDS`")
	f.StringSliceVar(&opt.paths, "paths", defaultPaths(), "measure on `PATHS`: host (through memory); loopback; veth1500, veth9000 (two network namespaces; root); guest (a virtual machine with Linux's rxe; root)")
	f.StringVar(&opt.congestion, "congestion", "", "congestion control `ALGORITHM` of softrdma: "+congestion.NameList()+" (default window, and path beyond 1 ms)")
	f.StringVar(&opt.softrdma, "softrdma", "", "measure the command `FILE` (default: one built from the source)")
	f.BoolVar(&opt.loss, "loss", false, "measure goodput over a relay that loses, delays and reorders packets (root)")
	f.BoolVar(&opt.json, "json", false, "print a JSON array with a table for each path, or with --loss one object")
	f.BoolVar(&opt.gates, "gates", false, "also print the range of the ratios, and the targets of softrdma's developers")
	f.StringVar(&opt.html, "html", "", "also measure over message sizes, and write tables and plots to `FILE` (takes much longer)")
	cmd.AddCommand(newEndCommand(), newMemoryCommand(), newMessagesCommand(), newCollectiveCommand(), newCallsCommand(), newScalingCommand())
	return cmd
}

func run(cmd *cobra.Command, opt *options) error {
	if opt.rounds < 1 || opt.each < 10*time.Millisecond {
		return fmt.Errorf("expected at least one round of 10ms, found %d of %v", opt.rounds, opt.each)
	}
	if _, err := verbs.ParseCongestionControl(opt.congestion); err != nil {
		return fmt.Errorf("--congestion: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	remove, err := opt.prepare(cmd.Context())
	if err != nil {
		return err
	}
	defer remove()
	if opt.loss {
		return runLoss(cmd, opt, self)
	}
	r := &report{file: opt.html, origin: origin(opt.version), gates: opt.gates}
	for i, name := range opt.paths {
		t, more, err := runPath(cmd, opt, self, name, r)
		if err != nil {
			return err
		}
		if err := r.add(t, more); err != nil {
			return err
		}
		if opt.json {
			continue
		}
		if i == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), r.origin)
		}
		if err := printTable(cmd.OutOrStdout(), t, opt.gates); err != nil {
			return err
		}
	}
	if !opt.json {
		return nil
	}
	return writeJSON(cmd.OutOrStdout(), r.tables)
}

// prepare builds the command to measure, unless the user named one, and asks for its version. The
// returned function removes what was built.
func (o *options) prepare(ctx context.Context) (remove func(), err error) {
	remove = func() {}
	if o.softrdma == "" {
		if o.softrdma, remove, err = buildSoftrdma(ctx); err != nil {
			return nil, err
		}
	} else if o.softrdma, err = filepath.Abs(o.softrdma); err != nil { // tools start it in other folders
		return nil, err
	}
	out, err := exec.CommandContext(ctx, o.softrdma, "--version").Output()
	if err != nil {
		remove()
		return nil, fmt.Errorf("%s --version: %w", o.softrdma, err)
	}
	o.version = strings.TrimSpace(strings.TrimPrefix(string(out), "softrdma "))
	return remove, nil
}

// writePage writes a page to a file.
func writePage(name string, page func(io.Writer) error) error {
	var b bytes.Buffer
	if err := page(&b); err != nil {
		return err
	}
	return maybe.WriteFile(name, b.Bytes(), 0o644)
}

// runPath measures on one path.
func runPath(cmd *cobra.Command, opt *options, self, name string, grows *report) (*compare.Table, []compare.Plot, error) {
	path, err := openPath(cmd.Context(), name)
	if err != nil {
		return nil, nil, err
	}
	defer path.Close()
	run := &compare.Run{
		Path: path, Rounds: opt.rounds, Each: opt.each, Figures: chooseFigures(path.Figures(), opt.only),
		Tools: []compare.Tool{
			compare.Softrdma{Path: opt.softrdma, Bench: self, Congestion: opt.congestion}, compare.Kernel{Path: self}, compare.Iperf3{}, compare.UCX{}, compare.UCX{Shared: true},
			compare.RawMemory{Path: self}, compare.RDMANet{Path: self}, compare.Messages{Path: self},
			compare.Exec{Path: opt.softrdma}, guestDevice,
			compare.Program{Path: opt.softrdma}, compare.Program{Path: opt.softrdma, Memory: true}, compare.UCX{Programs: opt.softrdma}, compare.MPI{Path: opt.softrdma}, compare.MPI{TCP: true}, compare.MPI{Host: true}, compare.Collective{Path: opt.softrdma, Bench: self}, compare.Presence{Path: opt.softrdma},
			compare.Fabric{Path: opt.softrdma}, compare.Fabric{Path: opt.softrdma, Trunk: true},
		},
	}
	run.Tools = append(run.Tools, compare.CallTools(self)...)
	if len(run.Figures) == 0 {
		return nil, nil, fmt.Errorf("--figures: no figure's name contains %s", strings.Join(opt.only, " or "))
	}
	var done func()
	run.Progress, done = progress(cmd.ErrOrStderr(), path.Name, time.Now)
	defer done()
	run.Report = grows.show
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

// guestDevice is the RDMA device of a guest's kernel. GID 1 is that of its IPv4
// address, GID 0 that of the link-local address.
var guestDevice = compare.Perftest{Device: "rxe0", GID: 1}

// defaultPaths returns the paths that need neither root nor a virtual machine. Devices of
// other systems than Linux do not use the memory of one machine.
func defaultPaths() []string {
	if runtime.GOOS == "linux" {
		return []string{"host", "loopback"}
	}
	return []string{"loopback"}
}

func openPath(ctx context.Context, name string) (*compare.Path, error) {
	switch name {
	case "loopback":
		return compare.Loopback(), nil
	case "veth1500":
		return compare.Veth(1500)
	case "veth9000":
		return compare.Veth(9000)
	case "host":
		return compare.Host()
	case "guest":
		return openGuest(ctx)
	}
	return nil, fmt.Errorf("--paths: expected host, loopback, veth1500, veth9000 or guest, found %q", name)
}

func chooseFigures(all []compare.Figure, words []string) []compare.Figure {
	return slices.DeleteFunc(all, func(f compare.Figure) bool { return !matches(f.Name, words) })
}

// matches reports whether a name contains one of the words, or there are none.
func matches(name string, words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(strings.ToLower(name), strings.ToLower(w))
	})
}

// printTable prints the table, with gates in the format of docs/performance.md.
func printTable(out io.Writer, t *compare.Table, gates bool) error {
	if _, err := fmt.Fprintln(out, figures(gates)(fmt.Sprintf("%s, the median round of %s", t.Path, plural(t.Rounds, "round")), t.Rows)); err != nil {
		return err
	}
	for _, r := range t.Rows {
		if r.Missing == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "missing: %s: %s\n", r.Name, oneLine(r.Missing)); err != nil {
			return err
		}
	}
	return nil
}

// figures returns what makes a table of figures.
func figures(gates bool) func(title string, rows []compare.Row) string {
	if gates {
		return figureTable
	}
	return verdictTable
}

func figureTable(title string, rows []compare.Row) string {
	if len(rows) == 0 {
		return ""
	}
	w := table.NewWriter()
	w.SetTitle(title)
	w.AppendHeader(table.Row{"figure", "softrdma", "peer", "ratio", "lowest–highest", "gate", "stretch", ""})
	for i := range rows {
		r := &rows[i]
		limits := table.Row{r.Limit(r.Gate), r.Limit(r.Stretch)}
		if r.Missing != "" {
			w.AppendRow(append(append(table.Row{r.Name, "", "", "–", ""}, limits...), "missing"))
			continue
		}
		of, against, ratio, span := r.Cells()
		w.AppendRow(append(append(table.Row{r.Name, of, against, ratio, span}, limits...), r.Verdict()))
	}
	return w.Render()
}

// peerWidth is the width of the columns for what is measured and for the peer, which wrap.
const peerWidth = 29

// verdictTable compares softrdma with its peers in words.
func verdictTable(title string, rows []compare.Row) string {
	if len(rows) == 0 {
		return ""
	}
	w := table.NewWriter()
	w.SetTitle(title)
	w.AppendHeader(table.Row{"what", "softrdma", "peer", "", "ratio", "verdict"})
	w.SetColumnConfigs([]table.ColumnConfig{
		{Number: 1, WidthMax: peerWidth, WidthMaxEnforcer: text.WrapSoft}, {Number: 3, WidthMax: peerWidth, WidthMaxEnforcer: text.WrapSoft},
	})
	for i := range rows {
		r := &rows[i]
		what, peer := r.Figure.Parts()
		if r.Missing != "" {
			w.AppendRow(table.Row{what, "", peer, "", "–", r.Words()})
			continue
		}
		of, against, ratio, _ := r.Cells()
		w.AppendRow(table.Row{what, of, peer, against, ratio, r.Words()})
	}
	return w.Render()
}

// newEndCommand returns the hidden command that bench starts as one end of a loop over
// the kernel's UDP or TCP, or over rdmanet.
func newEndCommand() *cobra.Command {
	return &cobra.Command{
		Use: "end CONFIG", Short: "One end of a loop over the kernel's UDP or TCP, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loop.ParseConfig(args[0])
			if err != nil {
				return fmt.Errorf("%w", err)
			}
			if c.Op == loop.OpRDMANet {
				sockets, err := openSockets(cmd, c)
				if err != nil {
					return err
				}
				defer sockets.dev.Close()
				c.Sockets = sockets
			}
			return loop.Run(cmd.Context(), c, json.NewEncoder(cmd.OutOrStdout()).Encode)
		},
	}
}
