// Package rping is the command that pings through the connection manager, compatible
// with rping of librdmacm.
package rping

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const long = `Pings through the RDMA connection manager: the client advertises memory, the
server reads the ping from it with RDMA READ and writes it back with RDMA WRITE.

The other end is softrdma rping or the rping of librdmacm, which has the same
options: -s waits for a client, -c connects to the server at -a ADDR. Without -C
the client pings until Ctrl-C.

A softrdma server accepts pings of any size (-S limits it); librdmacm's accepts
only those of its own -S. With -V the client compares the data that comes back
with what it sent, and a softrdma server compares pings with what rping sends.

With --json each result is an object on a line of standard output: pings and
validated; from a client also bytes (of a ping), seconds and usec_per_ping; from a
server client, the address of the client. All other output goes to standard error.`

const example = `  softrdma rping -s                          the server, on every address
  softrdma rping -c -a HOST -C 10 -v -V      the client

  softrdma rping -s -a 127.0.0.1             both on one machine
  softrdma rping -c -a 127.0.0.1 -C 10

  rping -s -C 100 -V                         librdmacm's server, on Soft RoCE ...
  softrdma rping -c -a HOST -C 100 -V        ... and a client here`

// A command is the command with its flags.
type command struct {
	cmd        *cobra.Command
	out        *cli.Printer
	results    *cli.Printer // of --json
	server     bool
	client     bool
	addr       string
	source     string
	port       uint16
	count      int
	size       cli.ByteSize
	verbose    bool
	validate   bool
	persistent bool
	ownQP      bool
	debug      bool
	timeout    time.Duration
	json       bool
	protocol   cli.Protocol

	notes *cli.Throttle // of a persistent server, else nil
}

// Sizes of a ping. rping has memory for maxSize bytes; minSize is room for the text
// with any number.
const (
	maxSize     = 64<<10 - 1
	minSize     = len("rdma-ping-2147483647: ") + 1
	defaultSize = 64
)

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	p := &command{size: defaultSize}
	cmd := &cobra.Command{
		Use: "rping {-s | -c -a ADDR} [flags]", Short: "Ping through the RDMA connection manager, as rping does",
		Long: long, Example: example, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.cmd, p.results = cmd, cli.NewPrinter(cmd.OutOrStdout())
			p.out = p.results
			if p.json {
				p.out = cli.NewPrinter(cmd.ErrOrStderr())
			}
			if err := p.checkFlags(); err != nil {
				return err
			}
			if p.server {
				return p.runServer(cmd.Context())
			}
			return p.runClient(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&p.server, "server", "s", false, "wait for a client")
	f.BoolVarP(&p.client, "client", "c", false, "ping the server at -a")
	f.StringVarP(&p.addr, "address", "a", "", "`ADDR` of the server; with -s a local address or interface (default: every address)")
	f.Uint16VarP(&p.port, "port", "p", 7174, "`PORT` of the server")
	f.IntVarP(&p.count, "count", "C", 0, "client: `NUMBER` of pings, 0 for no limit")
	f.VarP(&p.size, "size", "S", "ping size, 23 to 65535 bytes; with -s the largest that a client may send (default: any)")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "print each ping")
	f.BoolVarP(&p.validate, "validate", "V", false, "validate each ping")
	f.BoolVarP(&p.persistent, "persistent", "P", false, "server: serve any number of clients until interrupted")
	f.BoolVarP(&p.ownQP, "own-qp", "q", false, "move the queue pair through its states in this program, not in the connection manager")
	cli.SourceFlag(f, &p.source)
	f.BoolVarP(&p.debug, "debug", "d", false, "print each step on standard error")
	p.protocol.AddFlag(f, "")
	cli.SilenceFlag(f, &p.timeout)
	f.BoolVar(&p.json, "json", false, "print results as JSON objects, one per line")
	cli.AddDeviceFlags(cmd)
	return cmd
}

// checkFlags checks the flags before anything is opened.
func (p *command) checkFlags() error {
	changed := p.cmd.Flags().Changed
	switch {
	case p.server == p.client:
		return cli.UsageErrorf("expected one of -s (server) and -c (client)")
	case p.client && p.addr == "":
		return cli.UsageErrorf("-c: expected the server's address with -a")
	case p.server && p.source != "":
		return cli.UsageErrorf("-I is for the client; the server's address is -a")
	case p.client && p.persistent:
		return cli.UsageErrorf("-P is for the server")
	case p.count < 0:
		return cli.UsageErrorf("-C: expected a number from 0, found %d", p.count)
	case int(p.size) < minSize || int(p.size) > maxSize:
		return cli.UsageErrorf("-S: expected %d to %d bytes, found %d", minSize, maxSize, p.size)
	}
	if err := cmp.Or(cli.CheckPort(p.port), cli.CheckTimeout(p.timeout)); err != nil {
		return err
	}
	if p.server && !changed("size") {
		p.size = maxSize
	}
	return p.checkProtocol()
}

// checkProtocol makes the device and the protocol agree.
func (p *command) checkProtocol() error {
	device := &p.source
	if p.server {
		device = &p.addr
	}
	if err := p.protocol.Reconcile(device); err != nil {
		return err
	}
	if p.ownQP && p.protocol.IWARP() {
		return cli.UsageErrorf("-q: on iWARP the connection moves the queue pair through its states: %w", errors.ErrUnsupported)
	}
	return nil
}

// serverAddr returns the address of the server for package net.
func (p *command) serverAddr() string { return net.JoinHostPort(p.addr, strconv.Itoa(int(p.port))) }

// listenAddr returns the address that a server listens on. An address of a device need
// not be named again.
func (p *command) listenAddr(dev *verbs.Device) netip.AddrPort {
	if a, err := netip.ParseAddr(p.addr); dev == nil && err == nil {
		return netip.AddrPortFrom(a, p.port)
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), p.port)
}

// param returns the connection parameters of both ends. rping needs one outstanding
// READ, the server's.
func (p *command) param() rdmacm.ConnParam {
	return rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1}
}

// A record is a result in JSON.
type record struct {
	Client    string     `json:"client,omitempty"` // in a server's
	Pings     int        `json:"pings"`
	Bytes     int        `json:"bytes,omitempty"` // of a ping, in a client's
	Validated bool       `json:"validated"`
	Path      verbs.Path `json:"path,omitempty"`    // of the connection's packets, in a client's
	Seconds   float64    `json:"seconds,omitempty"` // in a client's
	Usec      float64    `json:"usec_per_ping,omitempty"`
}

// result prints a result as text, or with --json as an object.
func (p *command) result(r record, format string, args ...any) error {
	if !p.json {
		p.note(format, args...)
		return nil
	}
	r.Validated = p.validate
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p.results.Println(string(line))
	return nil
}

// note prints a server's message about a client.
func (p *command) note(format string, args ...any) {
	if p.notes != nil {
		p.notes.Printf(format, args...)
		return
	}
	p.out.Printf(format, args...)
}

func (p *command) debugf(format string, args ...any) {
	if p.debug {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// showPing prints a ping up to its zero byte.
func (p *command) showPing(what string, ping []byte) {
	if p.verbose {
		p.out.Printf("%s: %s", what, pingText(ping))
	}
}

// validated returns the end of the last line if pings were validated.
func (p *command) validated() string {
	if p.validate {
		return ", data validated"
	}
	return ""
}

// runClient pings the server.
func (p *command) runClient(ctx context.Context) (err error) {
	dev, err := cli.OpenLocal(ctx, p.cmd, p.source, p.serverAddr(), p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	dial, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	end, err := p.resolve(dial, dev.Device)
	if err != nil {
		return cli.ConnectError(ctx, err, p.serverAddr(), "softrdma rping -s", p.protocol, p.timeout)
	}
	endCapture := func() error { return nil }
	if dev.Device == nil {
		if endCapture, err = cli.CaptureDevice(p.cmd, end.Device()); err != nil {
			return errors.Join(err, end.abandon())
		}
	}
	defer func() { err = errors.Join(err, endCapture()) }()
	s, err := newSide(p, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.connect(dial); err != nil {
		return cli.ConnectError(ctx, err, p.serverAddr(), "softrdma rping -s", p.protocol, p.timeout)
	}
	path := s.qp.Path()
	p.debugf("connected to %v from %v, path %s", s.conn.RemoteAddr(), end.Device().Addr(), path)
	start := time.Now()
	done, err := s.ping(ctx)
	if took := time.Since(start); done > 0 && (err == nil || ctx.Err() != nil) {
		each := float64(took) / float64(time.Microsecond) / float64(done)
		r := record{Pings: done, Bytes: int(p.size), Seconds: took.Seconds(), Usec: each, Path: path}
		err = errors.Join(err, p.result(r, "%s of %d bytes in %.3f seconds, %.2f usec/ping%s", cli.Plural(done, "ping"), p.size, took.Seconds(), each, p.validated()))
	}
	return err
}
