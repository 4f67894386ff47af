package exec

import (
	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Runs a program of the Linux RDMA tools, or any other that uses libibverbs and
librdmacm, on an RDMA device of softrdma: unchanged, without a kernel module,
without root.

Where "softrdma daemon" runs the program finds the daemon's devices, which it
shares with others. Otherwise, and with -d, --protocol or --pcap, it finds one
device of its own, which ends with it: rxe0, or siw0 where that speaks iWARP, on
which programs connect by librdmacm alone (-R of perftest). A daemon is looked for at --socket, or else at
$XDG_RUNTIME_DIR/softrdma/socket and then /run/softrdma/socket.

The libraries are the system's own (Debian: libibverbs1, ibverbs-providers,
librdmacm1). softrdma preloads a small library into the program, which forwards
its system calls on RDMA device files to softrdma, and nothing else.

The program is given the terminal, its environment and its arguments, and
softrdma ends with its exit code, or with 128 and the number of the signal that
ended it.

With --share-memory, or SOFTRDMA_SHARE_MEMORY=1 in its environment, the pages of
memory that the program registers, 64 KiB and more, are replaced by ones that
softrdma shares: data from one such program to another is copied once and not
twice, and atomics are atomic with the program's own. It is done where the
program has one thread when it registers, and for private anonymous memory that
is not locked; -v tells where not, and why. It is not for programs that make
processes by clone and not by fork, or that have other devices or the kernel
write to registered memory by themselves.

Two programs without a daemon need two addresses. Programs that take a GID index
find the device's only GID at index 0.`

const example = `  softrdma exec -- ibv_devinfo -v

  softrdma exec -d 127.0.0.1 -- ibv_rc_pingpong -g 0
  softrdma exec -d 127.0.0.2 -- ibv_rc_pingpong -g 0 127.0.0.1

  softrdma exec -d 127.0.0.1 -- ib_write_bw
  softrdma exec -d 127.0.0.2 -- ib_write_bw 127.0.0.1

  softrdma exec --protocol iwarp -d 127.0.0.1 -- ib_write_bw -R
  softrdma exec --protocol iwarp -d 127.0.0.2 -- ib_write_bw -R 127.0.0.1`

// options are the flags of exec.
type options struct {
	device, socket string
	protocol       cli.Protocol
	verbose, share bool
}

func NewCommand() *cobra.Command {
	var s options
	cmd := &cobra.Command{
		Use: "exec [flags] -- PROGRAM [ARGS...]", Short: "Run a program that uses libibverbs, unchanged",
		Long: long, Example: example, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, &s, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the program's flags are the program's
	f.StringVarP(&s.device, "device", "d", "", "`INTERFACE` or address of a device of the program's own")
	s.protocol.AddFlag(f, "")
	f.StringVar(&s.socket, "socket", "", "`PATH` of the socket of the daemon whose devices the program is to find")
	f.BoolVar(&s.share, "share-memory", false, "share the program's registered memory with softrdma, where that can be done unnoticed")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print each call on the device that is refused, and at the end how often which reason was given")
	cli.AddDeviceFlags(cmd)
	return cmd
}
