package daemon

import (
	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Serves RDMA devices to the programs that "softrdma exec" starts, until it is
interrupted. Without a daemon each exec has a device of its own; with one they
share: any number of programs, of one user or of several, on one address.

The first -d is what programs find as rxe0, the next one as rxe1, and so on; those
that speak iWARP (-d iwarp:DEVICE, or --protocol iwarp for all) as siw0, siw1.
Where both are on one address, librdmacm takes the one that was named first.

The daemon listens on a Unix socket: that of --socket, or else for root
/run/softrdma/socket, and for others $XDG_RUNTIME_DIR/softrdma/socket. Beside it,
in the directory of its name and ".d", lies what programs read below /sys.
softrdma exec looks for a daemon at --socket, or else in
$XDG_RUNTIME_DIR/softrdma and then in /run/softrdma. So do Go programs that open
"daemon:", and the commands that take -d daemon:.

Who may use the devices the system tells the daemon, not the program: by
default programs of the daemon's own user, and root's. A device reads and
writes the memory of the programs that use it. Linux lets root do that to all,
and others to their own programs alone; so a daemon that serves other users
(--allow) is root's.

A program's objects end with it, however it ends. When the daemon ends, programs
get the asynchronous event of a fatal error of the device, and their calls fail
with EIO.`

const example = `  softrdma daemon -d eth0
  softrdma exec -- ibv_devinfo

  softrdma daemon -d 127.0.0.1 -d 127.0.0.2 -v
  softrdma exec -- ib_write_bw -d rxe0
  softrdma exec -- ib_write_bw -d rxe1 127.0.0.1
  softrdma perf write lat -d daemon:/rxe0

  softrdma daemon -d eth0 -d iwarp:eth0
  softrdma exec -- ib_write_bw -d siw0 -R

  sudo softrdma daemon -d eth0 --allow alice,@rdma`

// options are the flags of daemon.
type options struct {
	devices  []string
	protocol cli.Protocol
	socket   string
	mode     string
	allow    []string
	verbose  bool
}

func NewCommand() *cobra.Command {
	var s options
	cmd := &cobra.Command{
		Use: "daemon [flags]", Short: "Serve devices to many programs, under exec and in Go",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &s) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&s.devices, "device", "d", nil, "`INTERFACE` or address of a device; again for more devices")
	s.protocol.AddFlag(f, "")
	f.StringVar(&s.socket, "socket", "", "`PATH` of the socket (default /run/softrdma/socket, or $XDG_RUNTIME_DIR/softrdma/socket for users)")
	f.StringVar(&s.mode, "mode", "", "permissions of the socket, as `OCTAL` digits (default 600, with --allow 666: the daemon asks the system who connects)")
	f.StringSliceVar(&s.allow, "allow", nil, "serve programs of these `USERS` as well: names, numbers, @GROUP, or all")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print each call on a device that is refused, and at the end how often which reason was given")
	cli.AddDeviceFlags(cmd)
	return cmd
}
