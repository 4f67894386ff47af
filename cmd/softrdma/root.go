package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"softrdma/cmd/softrdma/internal/capture"
	"softrdma/cmd/softrdma/internal/cat"
	"softrdma/cmd/softrdma/internal/cdi"
	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/console"
	"softrdma/cmd/softrdma/internal/daemon"
	"softrdma/cmd/softrdma/internal/demo"
	"softrdma/cmd/softrdma/internal/devices"
	"softrdma/cmd/softrdma/internal/exec"
	"softrdma/cmd/softrdma/internal/explain"
	"softrdma/cmd/softrdma/internal/fabric"
	"softrdma/cmd/softrdma/internal/fault"
	"softrdma/cmd/softrdma/internal/files"
	"softrdma/cmd/softrdma/internal/kubernetes"
	"softrdma/cmd/softrdma/internal/nvme"
	"softrdma/cmd/softrdma/internal/perf"
	"softrdma/cmd/softrdma/internal/pingpong"
	"softrdma/cmd/softrdma/internal/rcopy"
	"softrdma/cmd/softrdma/internal/rping"
	"softrdma/cmd/softrdma/internal/run"
	"softrdma/cmd/softrdma/internal/simulate"
	"softrdma/cmd/softrdma/internal/top"
)

const rootLong = `softrdma provides RDMA over any network adapter, without RDMA hardware, kernel
modules or root. It speaks standard RoCE v2 and iWARP, so it interoperates with
Linux's Soft RoCE (rdma_rxe) and soft iWARP (siw) and with hardware adapters.

A device is an address of this machine. Commands take it as -d INTERFACE or
-d ADDRESS. Without -d they use the best routable address; "softrdma devices -v"
says why it was chosen. RoCE v2 uses UDP port 4791, which firewalls must allow.
Two devices on one machine need two addresses, for example 127.0.0.1 and
127.0.0.2.

With --protocol iwarp, or a device named iwarp:DEVICE, commands use iWARP, which
runs over TCP. With --protocol roce1, or roce1:DEVICE, they use RoCE v1 in Ethernet
frames, which needs the capability CAP_NET_RAW unless the device is a host of a fabric
(eth:FABRIC/HOST, "softrdma fabric up --ethernet").`

const rootExample = `  softrdma devices                       list the devices of this machine
  softrdma pingpong -d 127.0.0.1         wait for a peer ...
  softrdma pingpong -d 127.0.0.2 127.0.0.1   ... and ping it from another terminal
  softrdma pingpong -g 0 --pcap ping.pcapng HOST
                                         ping a host that runs ibv_rc_pingpong
  softrdma rping -c -a HOST -C 10        ping rping -s of librdmacm or softrdma
  softrdma cat -l 7000                   netcat over RDMA: wait for a peer
  softrdma top                           show what the devices of all programs do
  softrdma console                       show them in a browser
  softrdma capture ping.pcapng           show packets, and what is wrong with them
  softrdma explain RNR                   explain a status or a reason`

// extraCommands returns commands of builds with tags.
var extraCommands []func() *cobra.Command

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "softrdma",
		Short:         "RDMA on any network adapter",
		Long:          rootLong,
		Example:       rootExample,
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,

		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("softrdma {{.Version}}\n")
	root.AddCommand(
		devices.NewCommand(),
		pingpong.NewCommand(),
		perf.NewCommand(),
		rping.NewCommand(), rcopy.NewCommand(), cat.NewCommand(),
		exec.NewCommand(), exec.NewEnvCommand(), daemon.NewCommand(), run.NewCommand(),
		top.NewCommand(), console.NewCommand(), fault.NewCommand(), cdi.NewCommand(),
		fabric.NewCommand(), simulate.NewCommand(), kubernetes.NewCommand(), nvme.NewCommand(),
		files.NewNFSCommand(), files.New9PCommand(),
		demo.NewCommand(),
		capture.NewCommand(),
		explain.NewCommand(),
		newVersionCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: cli.ExitCodesText},
		&cobra.Command{Use: "environment", Short: "Environment variables and files", Long: cli.EnvironmentText + "\n" + cli.FilesText},
	)
	for _, add := range extraCommands {
		root.AddCommand(add())
	}
	root.SetFlagErrorFunc(flagError)
	addHelp(root)
	cli.AddCompletions(root)
	suggestCommands(root)
	codeRuns(root)
	return root
}

// flagError says which flag may be meant, and which numbers a flag accepts, which strconv's errors
// do not.
func flagError(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		return didYouMean(cmd, unknown)
	}
	bad, number := (*pflag.InvalidValueError)(nil), (*strconv.NumError)(nil)
	if !errors.As(err, &bad) || !errors.As(err, &number) {
		return err
	}
	want := "a number"
	switch kind := bad.GetFlag().Value.Type(); {
	case kind == "uint16":
		want = "0 to 65535"
	case strings.HasPrefix(kind, "uint"):
		want = "a number from 0"
	case errors.Is(number, strconv.ErrRange):
		want = "a smaller number"
	}
	return fmt.Errorf("--%s: expected %s, found %q", bad.GetFlag().Name, want, bad.GetValue())
}

// didYouMean adds the flags of a command with names like one that it does not have. Cobra looks for
// names of commands, so each flag becomes one.
func didYouMean(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	names := &cobra.Command{SuggestionsMinimumDistance: suggestDistance}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	found := names.SuggestionsFor(unknown.GetSpecifiedName())
	if len(found) == 0 {
		return unknown
	}
	return fmt.Errorf("%w: did you mean --%s?", unknown, strings.Join(found, " or --"))
}

// knownCommand refuses a first argument that is not a command below cmd.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	unknown := fmt.Sprintf("unknown command %q", args[0])
	if cmd.HasParent() {
		unknown += fmt.Sprintf(" for %q", cmd.CommandPath())
	}
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		return cli.UsageErrorf("%s: did you mean %s?", unknown, strings.Join(s, " or "))
	}
	return cli.UsageErrorf("%s", unknown)
}

// suggestDistance is how many letters may be wrong in a name that is suggested.
const suggestDistance = 2

// suggestCommands lets each command with commands below it suggest one for an unknown name.
func suggestCommands(c *cobra.Command) {
	c.SuggestionsMinimumDistance = suggestDistance
	if c.HasAvailableSubCommands() {
		c.Args = knownCommand
	}
	for _, sub := range c.Commands() {
		suggestCommands(sub)
	}
}

// codeRuns adds exit codes to the errors that commands return. Errors without one then
// come from cobra, before a command runs, and are usage errors.
func codeRuns(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil || errors.As(err, new(*cli.ExitError)) {
				return err
			}
			return cli.WithCode(cli.ExitCode(err), err)
		}
	}
	for _, sub := range c.Commands() {
		codeRuns(sub)
	}
}

// execute runs the command line and returns the command that it names.
func execute(ctx context.Context) (*cobra.Command, error) {
	root := newRootCommand()
	root.SetOut(cli.Stdout())
	root.SetArgs(explain.Arguments(os.Args[1:]))
	cmd, err := root.ExecuteContextC(ctx)
	if e := cli.WithOutputError(err); e != nil && !errors.As(err, new(*cli.ExitError)) && cli.WithOutputError(nil) != nil {
		return cmd, cli.WithCode(cli.ExitFailed, e)
	} else if e != err {
		return cmd, cli.WithCode(cli.ExitCode(err), e)
	}
	if err != nil && !errors.As(err, new(*cli.ExitError)) {
		err = cli.WithCode(cli.ExitUsage, err)
	}
	return cmd, err
}
