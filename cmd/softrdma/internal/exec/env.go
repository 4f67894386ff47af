package exec

import (
	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/sanitize"
)

const envLong = `Prints environment variables with which programs that use libibverbs or librdmacm
find an RDMA device, as under softrdma exec, but without exec in front of each:

  eval "$(softrdma env)"                  in sh, bash and zsh
  softrdma env --format fish | source     in fish
  softrdma env --format github >> "$GITHUB_ENV"
                                          for the later steps of a job

If a "softrdma daemon" is running, programs use its devices. Otherwise, or with -d,
--protocol or --pcap, the first program that looks for RDMA devices starts a server
in the background, which later programs join. It ends when none of them has been
there for five seconds. Programs of another user or in another network namespace
get a server of their own. Without -d that server chooses the best routable address
where it starts, as in a container.

If the server cannot be started, the first RDMA call of a program says why, in one
line on standard error.

With --metrics that server serves the metrics of all of them to Prometheus.

Programs that use no RDMA start nothing. Programs that are linked statically or run
with other rights than their user's (set-user-ID) ignore preloaded libraries and
find no device.`

const envExample = `  eval "$(softrdma env -d 127.0.0.1 -d 127.0.0.2)"
  ibv_devinfo
  ib_write_bw -d rxe0 & ib_write_bw -d rxe1 127.0.0.1

  softrdma env --protocol iwarp -d eth0 --format json`

// NewEnvCommand returns the command that prints the environment.
func NewEnvCommand() *cobra.Command {
	s := options{engine: engineAuto}
	form := format("sh")
	cmd := &cobra.Command{
		Use: "env [flags]", Short: "Print the environment in which unchanged programs have a device",
		Long: envLong, Example: envExample, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printEnvironment(cmd, &s, form) },
	}
	s.addFlags(cmd.Flags(), "`INTERFACE` or address of a device; repeat for more devices")
	cmd.Flags().VarP(&form, "format", "", "how to print: sh, fish, github or json")
	cmd.Flags().BoolVarP(&s.verbose, "verbose", "v", false, "print which server programs will use; programs print where the device is")
	run := cmd.RunE
	cli.AddDeviceFlags(cmd)
	cmd.RunE = run // the server that programs start serves metrics
	cli.CompleteFlag(cmd, "format", formats...)
	cli.CompleteFlag(cmd, "engine", engines...)
	cli.CompleteFlag(cmd, "sanitize", sanitize.Names()...)
	return cmd
}
