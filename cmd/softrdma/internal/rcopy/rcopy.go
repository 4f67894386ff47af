// Package rcopy is the command that copies files, compatible with rcopy of librdmacm.
package rcopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Copies a file to another host over RDMA.

Without arguments it is the server, which receives files until it is interrupted.
With SOURCE and SERVER it copies the file to the server, with the name DESTINATION
or its own. The other end is softrdma rcopy or the rcopy of librdmacm.

The server has no users or passwords: everyone who can connect can write. So it
writes only below --dir, by default the working directory. With --dir / clients
can write wherever the server's user can, as with librdmacm's server.

An existing file is replaced only when the whole new file is on storage. Until
then the data is in a file .rcopy-*.part beside it. If a copy between two softrdma
ends is interrupted, repeat the command to continue it, in steps of 32 MiB. Other
partial files can be deleted. A part that the server has is compared with the source
by SHA-256 before a copy continues behind it, and the whole file is copied if it
differs. What is sent over one connection is protected by the checksums of the packets
alone, or by the encryption.

If the connection is lost during a copy, the client connects again and continues,
for up to --retry. The time begins again when the server has got more of the file.
The client does not wait for a server that has ended.`

const example = `  softrdma rcopy --dir /srv/incoming         the server
  softrdma rcopy data.bin HOST               copy data.bin to /srv/incoming/data.bin
  softrdma rcopy /etc/fstab HOST:fstab.old

  rcopy                                      librdmacm's server, on Soft RoCE ...
  softrdma rcopy data.bin HOST:/tmp/data.bin ... receives a file from here`

// A command is the command with its flags.
type command struct {
	cli.StreamEnd
	out  io.Writer
	port uint16
	addr string
	dir  string
	once bool

	retry time.Duration

	// Of the client.
	whole    bool // the server cannot continue copies
	compared compared
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	r := &command{}
	cmd := &cobra.Command{
		Use: "rcopy [SOURCE SERVER[:DESTINATION]] [flags]", Short: "Copy a file over RDMA, as rcopy does",
		Long: long, Example: example, Args: cli.Args(0, 2, "SOURCE and SERVER[:DESTINATION], or nothing for a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Cmd, r.out = cmd, cmd.OutOrStdout()
			if err := r.check(args); err != nil {
				return err
			}
			if len(args) == 0 {
				return r.serve(cmd.Context())
			}
			return r.copy(cmd.Context(), args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint16VarP(&r.port, "port", "p", 7427, "`PORT` of the server")
	f.StringVarP(&r.addr, "address", "a", "", "server: local `ADDR` or interface to listen on (default: every address)")
	f.StringVar(&r.dir, "dir", ".", "server: write files only below `DIRECTORY`; / allows any path")
	f.BoolVar(&r.once, "once", false, "server: exit after one client, with an exit code that says whether it succeeded")
	f.DurationVar(&r.retry, "retry", 2*time.Minute, "client: after a lost connection, try to continue for this `DURATION`; 0 gives up at once")
	r.AddFlags(f)
	cli.SilenceFlag(f, &r.Timeout)
	cli.AddDeviceFlags(cmd)
	return cmd
}

func (r *command) check(args []string) error {
	if err := r.CheckFlags(&r.addr); err != nil {
		return err
	}
	if err := cli.CheckPort(r.port); err != nil {
		return err
	}
	switch {
	case r.retry < 0:
		return cli.UsageErrorf("--retry: expected a duration such as 2m, or 0, found %v", r.retry)
	case len(args) == 0 && r.Cmd.Flags().Changed("retry"):
		return cli.UsageErrorf("--retry is for the client")
	}
	switch len(args) {
	case 0:
		if r.Source != "" {
			return cli.UsageErrorf("-I is for the client; the server's address is -a")
		}
	case 1:
		return cli.UsageErrorf("expected SOURCE and SERVER[:DESTINATION], or nothing for a server; found %q alone", args[0])
	case 2:
		for _, flag := range []string{"address", "dir", "once"} {
			if r.Cmd.Flags().Changed(flag) {
				return cli.UsageErrorf("--%s is for the server", flag)
			}
		}
	}
	return nil
}

// serverPath splits SERVER[:DESTINATION]. An IPv6 address before a destination is in
// brackets.
func serverPath(s string) (server, path string) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), ""
	}
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if host, after, ok := strings.Cut(rest, "]"); ok && (after == "" || after[0] == ':') {
			return host, strings.TrimPrefix(after, ":")
		}
	}
	server, path, _ = strings.Cut(s, ":")
	return server, path
}

// summaryLine returns the last line that both ends print, in rcopy's format.
func summaryLine(n int64, took time.Duration) string {
	s := max(took.Seconds(), 1e-9)
	return fmt.Sprintf("%d bytes in %.2f seconds = %.2f Gb/sec", n, s, float64(n)*8e-9/s)
}

// copy is the client.
func (r *command) copy(ctx context.Context, source, to string) (err error) {
	f, err := openSource(source)
	if err != nil {
		return err
	}
	defer f.Close()
	server, path := serverPath(to)
	switch {
	case server == "":
		return cli.UsageErrorf("expected SERVER[:DESTINATION], found %q", to)
	case path == "":
		path = source
	}
	if len(path) > maxPath || strings.ContainsRune(path, 0) {
		return cli.UsageErrorf("destination: expected a name of up to %d bytes, found %d", maxPath, len(path))
	}
	if err := checkName(path); err != nil {
		return cli.UsageErrorf("destination: %w", err)
	}
	return r.persist(ctx, func() (bool, int64, error) { return r.try(ctx, f, server, path) })
}

// try connects and copies the file, or the rest of it. It reports whether it has connected, and
// where the rest began.
func (r *command) try(ctx context.Context, f *os.File, server, path string) (connected bool, from int64, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	conn, err := r.Dial(ctx, server, r.port, "softrdma rcopy")
	if err != nil {
		return false, 0, err
	}
	// The server has confirmed everything, so there is nothing to linger for.
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetLinger(0); conn.Close() })()
	c := &client{stream: newStream(conn, r.Timeout), compared: r.compared}
	via := conn.Path()
	s, err := c.send(f, path, r.whole)
	r.whole, r.compared = r.whole || errors.Is(err, errNoCheck), c.compared
	switch {
	case ctx.Err() != nil:
		return true, s.from, ctx.Err()
	case err != nil:
		return true, s.from, fmt.Errorf("copy %s to %s:%s: %w", f.Name(), server, path, r.ExplainPathMTU(ctx, net.JoinHostPort(server, strconv.Itoa(int(r.port))), c.failed(err)))
	}
	if s.from > 0 {
		fmt.Fprintf(r.out, "continued after %d bytes of an earlier copy\n", s.from)
	}
	fmt.Fprintf(r.out, "copied %s to %s:%s, path %s\n%s\n", f.Name(), server, path, via, summaryLine(s.size, s.took))
	return true, s.from, nil
}
