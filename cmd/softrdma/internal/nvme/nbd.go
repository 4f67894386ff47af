package nvme

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/storage/nbd"
	"softrdma/storage/nvmeof/host"
)

const nbdLong = `Connects to a subsystem and serves one of its namespaces by NBD until it is interrupted, so that
QEMU, qemu-img, nbdcopy and other clients of NBD can use it. Nothing is attached to the kernel.

NBD has no encryption here: it is served on a Unix socket, or on a loopback address. Everyone
who can open the socket can read and write the namespace.` + pathsText

const nbdExample = `  softrdma nvme serve-nbd -n nqn.2024-01.org.example:disk --socket /run/disk.nbd HOST
  qemu-img convert -n -O raw disk.qcow2 'nbd+unix:///?socket=/run/disk.nbd'
  nbdcopy 'nbd+unix:///?socket=/run/disk.nbd' disk.img`

// A gateway is the command with its flags.
type gateway struct {
	client
	id       uint32
	socket   string
	listen   string
	queues   int
	readOnly bool
}

func newServeNBD() *cobra.Command {
	g := &gateway{}
	cmd := &cobra.Command{
		Use: "serve-nbd HOST[:PORT]... --subsystem NQN {--socket FILE | --listen ADDR:PORT}", Short: "Serve a namespace to QEMU and other clients of NBD",
		Long: nbdLong, Example: nbdExample, Args: hosts,
		RunE: func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args) },
	}
	g.client.addFlags(cmd, true)
	g.client.addReconnectFlags(cmd)
	f := cmd.Flags()
	f.Uint32Var(&g.id, "namespace", 1, "`NUMBER` of the namespace")
	f.StringVar(&g.socket, "socket", "", "Unix socket `FILE` to listen on")
	f.StringVar(&g.listen, "listen", "", "loopback `ADDR:PORT` to listen on, such as 127.0.0.1:10809")
	f.IntVar(&g.queues, "queues", 1, "`NUMBER` of I/O queues of each connection")
	f.BoolVar(&g.readOnly, "read-only", false, "let clients only read")
	return cmd
}

// open opens the listener that the flags name.
func (g *gateway) open() (net.Listener, error) {
	if (g.socket == "") == (g.listen == "") {
		return nil, cli.UsageErrorf("expected --socket FILE or --listen ADDR:PORT")
	}
	if g.socket != "" {
		return net.Listen("unix", g.socket)
	}
	at, err := netip.ParseAddrPort(g.listen)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, cli.UsageErrorf("--listen: expected a loopback address and a port, such as 127.0.0.1:10809, found %q", g.listen)
	}
	return net.Listen("tcp", g.listen)
}

func (g *gateway) run(ctx context.Context, args []string) (err error) {
	l, err := g.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(l.Close())) }()
	return g.connect(ctx, args, host.Config{Queues: g.queues}, func(s *host.Subsystem) error {
		n, err := s.Namespace(ctx, g.id)
		if err != nil {
			return err
		}
		// Commands that wait for a connection end with it.
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		notes := &cli.Throttle{Print: cli.NewPrinter(g.cmd.ErrOrStderr()).Println}
		defer notes.Flush()
		server := &nbd.Server{
			Backend: volume{n}, ReadOnly: g.readOnly || n.ReadOnly(), Name: g.subsystem,
			Events: func(err error) { notes.Printf("%v", err) },
		}
		fmt.Fprintf(g.cmd.OutOrStdout(), "serving namespace %d, %d bytes, at %v\n", g.id, n.Size(), l.Addr())
		return server.Serve(ctx, l)
	})
}

// A volume is a namespace as a block.Backend. Its accesses are not cancelled: they end with the
// subsystem.
type volume struct{ *host.Namespace }

// Flush implements block.Backend.
func (v volume) Flush() error { return v.Namespace.Flush(context.Background()) }

// Trim implements block.Backend.
func (v volume) Trim(off, n int64) error { return v.Namespace.Trim(context.Background(), off, n) }

// WriteZeroes implements block.Backend.
func (v volume) WriteZeroes(off, n int64, mayTrim bool) error {
	return v.Namespace.WriteZeroes(context.Background(), off, n, mayTrim)
}

// Blocks implements block.Backend.
func (v volume) Blocks() bool { return true }
