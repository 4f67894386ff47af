// Package perf is the command that measures bandwidth and latency as perftest does.
// Package measure does the measuring.
package perf

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/congestion"
	"softrdma/verbs"
)

const long = `Measures the bandwidth or latency of an RDMA operation between two hosts, as
perftest does. Start the server first, without HOST, then the client with the
server's HOST. The server takes all settings from the client.

The two ends exchange settings and connect their queue pairs over TCP (--port).
With -R at the client the RDMA connection manager connects the queue pairs
instead, as with perftest's -R.

Without -d each end uses the address by which it reaches the other. If both run
on one machine, the client uses another loopback address or UDP port.

Both ends send a keep-alive message every second over TCP. An end that receives
none for 10 seconds gives up, because the other one is suspended or its host is
down.

Bandwidth counts payload only, and Gb/sec is in powers of ten. Latency is half of
the round trip for send and write, and all of it for read and atomic. After each
size the data is checked at its destination.`

const example = `  softrdma perf write bw                     the server
  softrdma perf write bw HOST                the client
  softrdma perf read lat -s 8 -n 100000 HOST
  softrdma perf send bw -a -q 4 --json HOST`

// options holds the command's flags.
type options struct {
	measure.Settings
	device string
	size   cli.ByteSize
	all    bool
	port   uint16
	json   bool
	keep   bool
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	opt := &options{}
	cmd := &cobra.Command{
		Use:     "perf {write|read|send|atomic} {bw|lat} [HOST]",
		Short:   "Measure bandwidth and latency",
		Long:    long,
		Example: example,
		Args:    checkArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return measure.Operations, cobra.ShellCompDirectiveNoFileComp
			case 1:
				return measure.Metrics, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, opt, args) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	cli.DeviceFlag(f, &opt.device, "chosen by the route")
	f.VarP(&opt.size, "size", "s", "message size (default 64KiB for bw, 2 for lat, 8 for atomic)")
	f.BoolVarP(&opt.all, "all", "a", false, "all message sizes from 2 B to 8 MiB")
	f.IntVarP(&opt.Iterations, "iters", "n", 0, "`NUMBER` of messages per queue pair and size (default 5000 for bw, 1000 for lat; with -a fewer for large sizes)")
	f.Float64VarP(&opt.Seconds, "duration", "D", 0, "measure each size for `SECONDS` instead of -n messages")
	f.Float64Var(&opt.Margin, "margin", 0, "exclude `SECONDS` at the start and the end of -D")
	f.IntVarP(&opt.QPs, "qps", "q", 1, "`NUMBER` of queue pairs")
	f.IntVarP(&opt.Depth, "depth", "t", 128, "`NUMBER` of requests in flight on each queue pair")
	f.IntVarP(&opt.MTU, "mtu", "m", 0, "path `MTU`: 256 to 4096 (default: the largest that both ends support)")
	f.Uint16VarP(&opt.port, "port", "p", 18516, "TCP `PORT` of the server, for exchanging settings")
	f.BoolVarP(&opt.Events, "events", "e", false, "wait for completion events instead of polling")
	f.BoolVarP(&opt.Bidirectional, "bidirectional", "b", false, "send in both directions; results are the sum")
	f.BoolVarP(&opt.Managed, "rdma-cm", "R", false, "connect the queue pairs with the RDMA connection manager (at the client)")
	f.StringVar((*string)(&opt.Memory), "memory", "", "`KIND` of both ends' memory: alloc (of verbs.AllocMemory) or ordinary (at the client; default alloc)")
	opt.Protocol.AddFlag(f, "; iwarp implies -R; the server takes the client's")
	f.StringVar((*string)(&opt.Congestion), "congestion", "", "congestion control `ALGORITHM` of both ends: "+congestion.NameList()+" (at the client; default window, and path beyond 1 ms)")
	f.StringVar((*string)(&opt.Recovery), "recovery", "", "loss recovery `METHOD` of both ends: selective-repeat or go-back-n (at the client; default selective-repeat)")
	f.BoolVar(&opt.json, "json", false, "print the results as one JSON object")
	f.BoolVar(&opt.keep, "keep", false, "server: serve one client after another until interrupted")
	cli.CompleteFlag(cmd, "memory", measure.MemoryKinds...)
	cli.AddDeviceFlags(cmd)
	return cmd
}

func checkArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) < 2 || len(args) > 3:
		return cli.UsageErrorf("expected an operation, bw or lat, and for a client the server's HOST; found %d arguments", len(args))
	case !slices.Contains(measure.Operations, args[0]):
		return cli.UsageErrorf("operation: expected %s; found %q", strings.Join(measure.Operations, ", "), args[0])
	case !slices.Contains(measure.Metrics, args[1]):
		return cli.UsageErrorf("expected bw or lat, found %q", args[1])
	}
	return nil
}

func run(cmd *cobra.Command, opt *options, args []string) error {
	ctx := cmd.Context()
	opt.Operation, opt.Metric = args[0], args[1]
	if err := cli.NotBoth(cmd, "size", "all"); err != nil {
		return err
	}
	if err := cli.NotBoth(cmd, "iters", "duration"); err != nil {
		return err
	}
	if err := opt.Protocol.Reconcile(&opt.device); err != nil {
		return err
	}
	if err := cli.ApplySameHostFlags(cmd); err != nil { // before a client connects
		return err
	}
	if len(args) == 3 {
		if opt.keep {
			return cli.UsageErrorf("--keep is for the server, but HOST makes this the client")
		}
		opt.defaults(cmd)
		if err := opt.Check(); err != nil {
			return err
		}
		return runClient(ctx, cmd, opt, args[2])
	}
	return runServer(ctx, cmd, opt)
}

// runServer opens the device of -d at once, so that its errors are reported before a
// client connects, and serves.
func runServer(ctx context.Context, cmd *cobra.Command, opt *options) error {
	p := &server{cmd: cmd, notes: cmd.OutOrStdout(), keep: opt.keep}
	if opt.json {
		p.notes = io.Discard // the client prints the results
	}
	if _, err := cli.CheckTLSFlags(cmd); err != nil { // before a client connects
		return err
	}
	if opt.device != "" {
		dev, err := cli.OpenDevice(cmd, opt.device, verbs.Config{})
		if err != nil {
			return err
		}
		defer dev.Close()
		p.dev = dev
	}
	return p.listen(ctx, opt.port)
}

// defaults fills in settings that the user omitted.
func (o *options) defaults(cmd *cobra.Command) {
	o.Managed = o.Managed || o.Protocol.IWARP() // iWARP cannot connect in another way
	latency := o.Metric == measure.MetricLatency
	switch {
	case o.all && o.Operation != measure.OpAtomic:
		o.Sizes = measure.SweepSizes()
	case cmd.Flags().Changed("size"):
		o.Sizes = []int{int(o.size)}
	case o.Operation == measure.OpAtomic:
		o.Sizes = []int{8}
	case latency:
		o.Sizes = []int{2}
	default:
		o.Sizes = []int{64 << 10}
	}
	if o.Iterations == 0 && !cmd.Flags().Changed("iters") {
		o.Iterations = 5000
		if latency {
			o.Iterations = 1000
		}
	} else {
		o.all = false // an explicit count applies to every size
	}
}
