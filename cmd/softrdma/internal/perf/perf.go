package perf

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

const long = `Measures the bandwidth or the latency of an operation between two ends, as
perftest does. Start the server first, without HOST, then the client with the
server's HOST. The server takes all settings from the client.

The ends find each other by TCP, where the client tells its settings. With -R at
the client the queue pairs are connected through the RDMA connection manager, as
perftest's -R does it, and not by what was said there.

Without -d each end takes the address by which it reaches the other. On one
machine the client takes a second address, or a second UDP port.

Each end says every second, by TCP, that it is there. An end that hears nothing
for 10 seconds gives up: the other one is stopped, or its host is gone.

Bandwidth is that of payload, in powers of ten for Gb/sec. Latency is half of
the round trip for send and write, and all of it for read and atomic. After
each size the data is checked at its destination.`

const example = `  softrdma perf write bw                     the server
  softrdma perf write bw HOST                the client
  softrdma perf read lat -s 8 -n 100000 HOST
  softrdma perf send bw -a -q 4 --json HOST`

// options are the command's flags.
type options struct {
	measure.Settings
	device string
	size   cli.ByteSize
	all    bool
	port   uint16
	json   bool
	keep   bool
}

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
	f.StringVarP(&opt.device, "device", "d", "", "`DEVICE`: network interface or local address, for iWARP iwarp:DEVICE; daemon: or daemon:SOCKET/rxe1 for a daemon's")
	f.VarP(&opt.size, "size", "s", "message size (default 64KiB for bw, 2 for lat, 8 for atomic)")
	f.BoolVarP(&opt.all, "all", "a", false, "all message sizes from 2 B to 8 MiB")
	f.IntVarP(&opt.Iterations, "iters", "n", 0, "messages of each queue pair and size (default 5000 for bw, 1000 for lat; with -a fewer of large ones)")
	f.Float64VarP(&opt.Seconds, "duration", "D", 0, "measure each size for so many `seconds`, in place of -n")
	f.Float64Var(&opt.Margin, "margin", 0, "`seconds` at the start and at the end of -D that do not count")
	f.IntVarP(&opt.QPs, "qps", "q", 1, "queue pairs")
	f.IntVarP(&opt.Depth, "depth", "t", 128, "requests in flight on each queue pair")
	f.IntVarP(&opt.MTU, "mtu", "m", 0, "path MTU: 256 to 4096 (default the largest that both ends carry)")
	f.Uint16VarP(&opt.port, "port", "p", 18516, "TCP port of the server, for the exchange of settings")
	f.BoolVarP(&opt.Events, "events", "e", false, "sleep for completions in place of polling")
	f.BoolVarP(&opt.Bidirectional, "bidirectional", "b", false, "both ends send; results are the sum")
	f.BoolVarP(&opt.Managed, "rdma-cm", "R", false, "connect the queue pairs through the RDMA connection manager (at the client)")
	opt.Protocol.AddFlag(f, "; iwarp implies -R; the server takes the client's")
	f.StringVar((*string)(&opt.Congestion), "congestion", "", "`CONTROL` of congestion at both ends: window, dcqcn, delay or none (at the client; default window)")
	f.StringVar((*string)(&opt.Recovery), "recovery", "", "how both ends make up for `LOSS`: selective-repeat or go-back-n (at the client; default selective-repeat)")
	f.BoolVar(&opt.json, "json", false, "print one JSON object")
	f.BoolVar(&opt.keep, "keep", false, "server: serve one client after another until interrupted")
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
	if len(args) == 3 {
		if opt.keep {
			return cli.UsageErrorf("--keep is for the server, which has no HOST")
		}
		opt.defaults(cmd)
		if err := opt.Check(); err != nil {
			return err
		}
		return runClient(ctx, cmd, opt, args[2])
	}
	return runServer(ctx, cmd, opt)
}

// runServer opens the device that -d names, so that what is wrong with it
// shows at once, and serves.
func runServer(ctx context.Context, cmd *cobra.Command, opt *options) error {
	p := &server{cmd: cmd, notes: cmd.OutOrStdout(), keep: opt.keep}
	if opt.json {
		p.notes = io.Discard // the results are the client's
	}
	if opt.device != "" {
		dev, closeDevice, err := cli.OpenDevice(cmd, opt.device, verbs.Config{})
		if err != nil {
			return err
		}
		defer closeDevice()
		p.dev = cli.Device{Device: dev, Close: closeDevice}
	}
	return p.listen(ctx, opt.port)
}

// defaults fills in what the user left open.
func (o *options) defaults(cmd *cobra.Command) {
	o.Managed = o.Managed || o.Protocol.IWARP() // which has nothing else
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
		o.all = false // an explicit count holds for every size
	}
}
