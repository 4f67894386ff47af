// Package console is the command that shows devices, connections, faults and fabrics in a browser. The
// page and what it asks are package internal/console's.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/console"
	"softrdma/internal/control"
	"softrdma/internal/lessons"
)

const long = `Serves a page for a browser that shows the devices, connections and fabrics of this
user's programs on this host, with live rates. Programs are Go programs, those of
softrdma exec and softrdma env, daemons and fabrics. No program has to be started in a
special way.

The page has a map, tables of all objects, each connection with its throughput, round
trip, window and last packets, faults to switch on and off, fabrics, of which it cuts and
repairs cables, and ladders of captured packets. Its lessons show how RDMA works with
traffic that the console itself sends between loopback addresses. It loads nothing from
other hosts.

The printed URL has a random token, without which the console answers nothing: who has
the URL can see all of this and set faults. Only programs of this host reach the console,
unless --listen names another address. It speaks HTTP without encryption, so from another
host use ssh -L.`

const example = `  softrdma console                  print a URL, and serve until Ctrl-C
  softrdma console --port 8080
  ssh -L 8080:127.0.0.1:8080 HOST softrdma console --port 8080
                                    look at another host`

// A command is the command with its flags.
type command struct {
	listen string
	port   uint16
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "console", Short: "Show devices, connections, faults and fabrics in a browser",
		Long: long, Example: example, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.listen, "listen", "127.0.0.1", "listen on this `ADDRESS` of the host")
	f.Uint16Var(&c.port, "port", 0, "listen on this TCP `PORT` (default: any that is free)")
	return cmd
}

// run serves until the context ends.
func (c *command) run(ctx context.Context, out, notes io.Writer) error {
	if control.Directory() == "" {
		return errors.New("SOFTRDMA_CONTROL_DIR is off, so no program can be asked")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.listen, strconv.Itoa(int(c.port))))
	if err != nil {
		return fmt.Errorf("--listen %s --port %d: expected an address of this host and a free port: %w", c.listen, c.port, err)
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	host, name := at.Addr().Unmap().String(), ""
	if _, err := netip.ParseAddr(c.listen); err != nil {
		host, name = c.listen, c.listen
	} else if at.Addr().IsUnspecified() {
		if name, err = os.Hostname(); err == nil {
			host = name
		}
	}
	if !at.Addr().Unmap().IsLoopback() {
		fmt.Fprintln(notes, "other hosts reach the console, without encryption: who sees the token can see and change what it shows")
	}
	token := console.NewToken()
	page, course := console.New(token, at, name), lessons.New()
	page.Handle("/api/lessons", course)
	page.Handle("/api/lessons/", course)
	defer course.End("")
	s := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), // a browser that sends nonsense is told so
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	fmt.Fprintf(out, "http://%s/#token=%s\n", net.JoinHostPort(host, strconv.Itoa(int(at.Port()))), token)
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
