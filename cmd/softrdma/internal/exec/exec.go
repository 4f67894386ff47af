// Package exec is the command that runs a C program on a device of softrdma. Package
// internal/uverbs serves the program.
package exec

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/sanitize"
)

const long = `Runs a program that uses libibverbs or librdmacm, such as the Linux RDMA tools, on
an RDMA device of softrdma, without recompiling it and without a kernel module or
root.

If a "softrdma daemon" is running, the program uses the daemon's devices, which it
shares with other programs. Otherwise, or with -d, --protocol or --pcap, it gets a
device of its own: rxe0, or siw0 with iWARP. With several -d they are rxe0, rxe1 and
so on, in that order. On siw0 programs connect only through librdmacm (-R of
perftest). The daemon's socket is that of --socket, or else
$XDG_RUNTIME_DIR/softrdma/socket or /run/softrdma/socket.

The libraries are those of the system (Debian: libibverbs1, ibverbs-providers,
librdmacm1). softrdma preloads a small library into the program, which replaces
system calls on RDMA device files and what belongs to them (files below /sys, RDMA's
netlink, memory and signals that the device uses).

The device is in the program's own process, as a library in Go, or in the process of
softrdma, where each call is a message (--engine program or daemon). The first is much
faster. It is for programs of the daemon's user. With RoCE v1 the program itself needs
CAP_NET_RAW. Programs on one address then share it.
When softrdma ends, also by kill, programs with the device in their own process keep
it; others lose it. With auto softrdma takes the first where that is possible; -v says
which it was, and why.

The program may be a script. All programs that it starts find the same devices and
reach each other on them: one exec serves a test suite with its servers and clients.

The program inherits the terminal, the environment and its arguments. softrdma
passes SIGINT and SIGTERM on. It exits with the program's exit code, with 128 plus
the number of the signal that ended it, with 127 if there is no such program, and
with 126 if it cannot be executed.

With --sanitize the device checks how the program uses it, and prints mistakes with
the position in the program and what to do: memory that is used after it was
deregistered, buffers that change while they are sent, queues that must overflow,
objects that leak. If there was one, the exit code is 66 instead of 0. See "softrdma
explain OBJECT_LEAKED" and the like.

With --metrics Prometheus reads what the device and the programs on it have counted
(docs/observe.md). The program then gets a device of its own.

Two programs without a daemon need two addresses. Programs that take a GID index
find the device's address at the indices 0 to 3.`

const example = `  softrdma exec -- ./all-tests.sh       servers and clients of one script

  softrdma exec -- ibv_devinfo -v

  softrdma exec --sanitize -- ./my-test

  softrdma exec -d 127.0.0.1 -- ibv_rc_pingpong -g 0
  softrdma exec -d 127.0.0.2 -- ibv_rc_pingpong -g 0 127.0.0.1

  softrdma exec -d 127.0.0.1 -- ib_write_bw
  softrdma exec -d 127.0.0.2 -- ib_write_bw 127.0.0.1

  softrdma exec --protocol iwarp -d 127.0.0.1 -- ib_write_bw -R
  softrdma exec --protocol iwarp -d 127.0.0.2 -- ib_write_bw -R 127.0.0.1`

// options holds the command's flags.
type options struct {
	devices  []string
	socket   string
	protocol cli.Protocol
	verbose  bool
	wait     time.Duration // for a daemon; 0 without --wait
	engine   engine
	records  string
	sanitize sanitizeOptions
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	s := options{engine: engineAuto}
	cmd := &cobra.Command{
		Use: "exec [flags] -- PROGRAM [ARGS...]", Short: "Run a program that uses libibverbs, unchanged",
		Long: long, Example: example, Args: hasProgram,
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, &s, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after PROGRAM are the program's
	s.addFlags(f, "`INTERFACE` or address of a device for this program only; repeat for more devices")
	f.DurationVar(&s.wait, "wait", 0, "wait for a daemon for this `DURATION`, and fail if there is none")
	f.Lookup("wait").NoOptDefVal = "30s"
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print where the device is, each refused call on it, and at the end the first failures and a count for each reason")
	f.IntVar(&s.sanitize.exit, "sanitize-exit", sanitizeExit, "exit `CODE` if --sanitize has found something and the program's own is 0")
	cli.AddDeviceFlags(cmd)
	cli.CompleteFlag(cmd, "engine", engines...)
	cli.CompleteFlag(cmd, "sanitize", sanitize.Names()...)
	return cmd
}

// addFlags adds the flags that exec and env share.
func (s *options) addFlags(f *pflag.FlagSet, device string) {
	f.StringArrayVarP(&s.devices, "device", "d", nil, device)
	s.protocol.AddFlag(f, "")
	f.StringVar(&s.socket, "socket", "", "`PATH` of the socket of the daemon to use")
	f.StringVar(&s.records, "records", "", "write the flight recorder into the directory `DIR` when a queue pair fails or the program crashes")
	f.VarP(&s.engine, "engine", "", "where the device of the program is: auto, program (in its own process) or daemon")
	s.sanitize.addFlags(f)
}

func hasProgram(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.UsageErrorf("expected a PROGRAM to run, as in softrdma exec -- ibv_devinfo")
	}
	if _, err := time.ParseDuration(args[0]); err == nil && cmd.Flags().Changed("wait") {
		return cli.UsageErrorf("--wait: expected its duration after an equals sign, as in --wait=%s, found a space", args[0])
	}
	return nil
}
