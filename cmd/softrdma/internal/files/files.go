// Package files has the commands that serve a directory to hosts, which mount it over RDMA.
package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
)

// A server is what the commands share: a directory, and where it is served.
type server struct {
	cmd      *cobra.Command
	dir      string
	addr     string
	port     uint16
	protocol cli.Protocol
	readOnly bool
	verbose  bool
}

// newCommand returns a command that serves a directory.
func newCommand(s *server, name, short, long, example string, port uint16, run func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " DIR [flags]", Short: short, Long: long, Example: example, Args: cli.Args(1, 1, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.dir = args[0]
			if err := cli.CheckPort(s.port); err != nil {
				return err
			}
			if err := s.protocol.Reconcile(&s.addr); err != nil {
				return err
			}
			return run(cmd.Context())
		},
	}
	s.cmd = cmd
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&s.addr, "address", "a", "", "local `ADDR` or interface to listen on (default: every address)")
	f.Uint16VarP(&s.port, "port", "p", port, "`PORT` to listen on")
	f.BoolVarP(&s.readOnly, "read-only", "r", false, "clients may not change anything")
	s.protocol.AddFlag(f, "")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print clients that connect, and why connections end")
	cli.AddDeviceFlags(cmd)
	return cmd
}

// serve listens on a device and calls serve with the listener and the address to print. It closes both.
func (s *server) serve(ctx context.Context, serve func(ctx context.Context, l *rdmacm.Listener, host string) error) (err error) {
	dev, err := cli.OpenLocal(ctx, s.cmd, s.addr, "", s.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(dev.Close())) }()
	if err := cli.RequireDevice(s.cmd, dev, "-a ADDR"); err != nil {
		return err
	}
	host := s.addr
	if dev.Device != nil {
		host = dev.Addr().Addr().String()
	}
	l, err := rdmacm.Listen(net.JoinHostPort(host, strconv.Itoa(int(s.port))), rdmacm.ListenConfig{Device: dev.Device, Protocol: s.protocol.Verbs()})
	if err != nil {
		return cli.ListenError(err, dev, s.protocol, "-a ADDR")
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(l.Close())) }()
	return serve(ctx, l, host)
}

// notes returns what a server calls for clients that connect and leave.
func (s *server) notes(ctx context.Context) (connected func(netip.AddrPort), disconnected func(netip.AddrPort, error), flush func()) {
	notes := &cli.Throttle{Print: cli.NewPrinter(s.cmd.ErrOrStderr()).Println}
	if !s.verbose {
		return nil, nil, notes.Flush
	}
	return func(client netip.AddrPort) { notes.Printf("client %v is connected", client) },
		func(client netip.AddrPort, err error) {
			if ctx.Err() == nil {
				notes.Printf("client %v has left: %s", client, cli.OneLine(err))
			}
		}, notes.Flush
}

// println prints a result.
func (s *server) println(format string, args ...any) {
	fmt.Fprintf(s.cmd.OutOrStdout(), format+"\n", args...)
}
