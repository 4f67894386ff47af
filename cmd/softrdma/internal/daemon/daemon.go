// Package daemon is the command that serves devices to many programs. Package
// internal/uverbs serves them; this package decides which users are served, and owns the
// socket.
package daemon

import (
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Serves RDMA devices to the programs that "softrdma exec" starts, until it is
interrupted. Without a daemon each exec opens a device of its own. With one, any
number of programs, of one or several users, share devices on one address.

Programs find the first -d as rxe0, the next one as rxe1, and so on. Devices that
use iWARP (-d iwarp:DEVICE, or --protocol iwarp for all) are siw0, siw1 and so on.
If an address has both, librdmacm uses the one that was given first.

The daemon listens on a Unix socket: --socket, or by default /run/softrdma/socket
for root and $XDG_RUNTIME_DIR/softrdma/socket for other users, or without that
variable /tmp/softrdma-daemon-UID/socket. The files that programs read below /sys
are in a directory beside it, with the socket's name and ".d". softrdma exec looks
for a daemon at --socket, or else at the user's socket and then in /run/softrdma.
So do Go programs of the same user that open "shared:", and softrdma perf and
pingpong with -d shared:, for a device of their own on an address of the daemon.

By default the daemon serves programs of its own user and of root. It asks the
system who the user is, not the program. A device reads and writes the memory of
the programs that use it, which Linux allows root for all programs, and other
users for their own. So a daemon that serves other users (--allow) must run as
root.

A device keeps a copy of the memory that other processes have registered. This
copy, queues, and all else that programs make the daemon hold count against
--client-memory, the same memory of a process only once. One user gets at most
two thirds of it. Calls beyond that fail with ENOMEM, and -v prints CLIENT_LIMIT.

With --metrics Prometheus reads what the devices and the programs on them have
counted (docs/observe.md).

With --idle the daemon ends by itself when there has been no program for so long. A
program that has connected counts until it ends.

A program's objects are destroyed when it ends, however it ends. When the daemon
ends, programs receive the asynchronous event of a fatal device error, and their
calls fail with EIO. Programs with the device in their own process (softrdma exec
--engine) keep it and their connections; calls of librdmacm fail, and their
addresses are in use until they end.`

const example = `  softrdma daemon -d eth0
  softrdma exec -- ibv_devinfo

  softrdma daemon -d 127.0.0.1 -d 127.0.0.2 -v
  softrdma exec -- ib_write_bw -d rxe0
  softrdma exec -- ib_write_bw -d rxe1 127.0.0.1
  softrdma perf write lat -d shared:/rxe0

  softrdma daemon -d iwarp:eth0 -d eth0
  softrdma exec -- ib_write_bw -d siw0 -R

  sudo softrdma daemon -d eth0 --allow alice,@rdma --client-memory 4G`

// options holds the command's flags.
type options struct {
	devices  []string
	protocol cli.Protocol
	socket   string
	mode     string
	allow    []string
	memory   cli.ByteSize
	idle     time.Duration // 0 without --idle
	onDemand bool          // for the preloaded library, which starts it so
	verbose  bool
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var s options
	cmd := &cobra.Command{
		Use: "daemon [flags]", Short: "Serve devices to many programs under exec",
		Long: long, Example: example, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &s) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&s.devices, "device", "d", nil, "`INTERFACE` or address of a device; repeat for more devices")
	s.protocol.AddFlag(f, "")
	f.StringVar(&s.socket, "socket", "", "`PATH` of the socket (default /run/softrdma/socket, or $XDG_RUNTIME_DIR/softrdma/socket for users)")
	f.StringVar(&s.mode, "mode", "", "`OCTAL` permissions of the socket (default 600; with --allow 666, because the daemon checks the user itself)")
	f.StringSliceVar(&s.allow, "allow", nil, "also serve programs of `USERS`: names, numbers, @GROUP, or all")
	f.Var(&s.memory, "client-memory", "memory that all programs may make the daemon hold, one user two thirds of it (default three quarters of the memory of the system or of the daemon's control group)")
	f.DurationVar(&s.idle, "idle", 0, "end when no program has used a device for this `DURATION`")
	f.BoolVar(&s.onDemand, "on-demand", false, "serve the programs of one environment (softrdma env), or join the server that does")
	_ = f.MarkHidden("on-demand")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print each refused call on a device, and at the end the first failures and a count for each reason")
	cli.AddDeviceFlags(cmd)
	return cmd
}
