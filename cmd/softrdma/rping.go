package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

const rpingLong = `Pings through the RDMA connection manager: the client advertises memory, the
server fetches the ping from it by RDMA READ and puts it back by RDMA WRITE.

The other end is softrdma rping or the rping of librdmacm, whose options these
are: -s waits for a client, -c goes to the server at -a ADDR. Without -C the
client pings until Ctrl-C.

A softrdma server takes pings of any size (-S limits it); rping's takes those
of its own -S. With -V the client compares what comes back with what it sent,
and a softrdma server the pings with what rping sends.

With --json each result is an object on a line of standard output: pings and validated,
of the client also bytes (of a ping), seconds and usec_per_ping, of the server
client, which is the client's address. Everything else goes to standard error.`

const rpingExample = `  softrdma rping -s                          the server, on every address
  softrdma rping -c -a HOST -C 10 -v -V      the client

  softrdma rping -s -a 127.0.0.1             both on one machine
  softrdma rping -c -a 127.0.0.1 -C 10

  rping -s -C 100 -V                         librdmacm's, with Soft RoCE, waits ...
  softrdma rping -c -a HOST -C 100 -V        ... and is pinged from here`

// An rping is the command with its flags.
type rping struct {
	cmd        *cobra.Command
	out        io.Writer
	server     bool
	client     bool
	addr       string
	source     string
	port       uint16
	count      int
	size       byteSize
	verbose    bool
	validate   bool
	persistent bool
	own        bool
	debug      bool
	timeout    time.Duration
	json       bool
	protocol   protocolFlag

	printing sync.Mutex // a persistent server's clients print at a time
	notes    *throttle  // of a server that goes on, nil of others
}

// The sizes of a ping: the largest that rping has memory for, and the smallest
// that holds its text with every number.
const (
	rpingMaxSize     = 64<<10 - 1
	rpingMinSize     = len("rdma-ping-2147483647: ") + 1
	rpingDefaultSize = 64
)

func newRpingCommand() *cobra.Command {
	p := &rping{size: rpingDefaultSize}
	cmd := &cobra.Command{
		Use: "rping {-s | -c -a ADDR} [flags]", Short: "Ping through the RDMA connection manager, as rping does",
		Long: rpingLong, Example: rpingExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.cmd, p.out = cmd, cmd.OutOrStdout()
			if p.json {
				p.out = cmd.ErrOrStderr()
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
	f.StringVarP(&p.addr, "address", "a", "", "`ADDR`: the server's host or address; of -s the local one, interface or daemon:SOCKET/rxe1 (default every address)")
	f.Uint16VarP(&p.port, "port", "p", 7174, "`PORT` of the server")
	f.IntVarP(&p.count, "count", "C", 0, "`NUMBER` of pings of the client, 0 for no end")
	f.VarP(&p.size, "size", "S", "bytes of a ping, 23 to 65535; with -s the most that a client may send, which without -S is any")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "print each ping")
	f.BoolVarP(&p.validate, "validate", "V", false, "validate each ping")
	f.BoolVarP(&p.persistent, "persistent", "P", false, "server: go on with further clients, many at a time, until interrupted")
	f.BoolVarP(&p.own, "own-qp", "q", false, "move the queue pair through its states here, not in the connection manager")
	f.StringVarP(&p.source, "source", "I", "", "client: `INTERFACE-OR-ADDRESS` to go out from, or daemon:SOCKET/rxe1 (default by the route)")
	f.BoolVarP(&p.debug, "debug", "d", false, "tell each step on standard error")
	p.protocol.flag(f, "")
	f.DurationVar(&p.timeout, "timeout", 10*time.Second, "how long the peer may say nothing")
	f.BoolVar(&p.json, "json", false, "print results as JSON objects, one on a line")
	addDeviceFlags(cmd)
	return cmd
}

// checkFlags refuses what cannot work before anything is opened.
func (p *rping) checkFlags() error {
	changed := p.cmd.Flags().Changed
	switch {
	case p.server == p.client:
		return usageErrorf("expected one of -s (server) and -c (client)")
	case p.client && p.addr == "":
		return usageErrorf("-c: expected the server's address with -a")
	case p.server && p.source != "":
		return usageErrorf("-I is for the client; the server's address is -a")
	case p.client && p.persistent:
		return usageErrorf("-P is for the server")
	case p.count < 0:
		return usageErrorf("-C: expected a number from 0, found %d", p.count)
	case p.port == 0:
		return usageErrorf("-p: expected 1 to 65535, found 0")
	case int(p.size) < rpingMinSize || int(p.size) > rpingMaxSize:
		return usageErrorf("-S: expected %d to %d bytes, found %d", rpingMinSize, rpingMaxSize, p.size)
	case p.timeout <= 0:
		return usageErrorf("--timeout: expected a positive duration such as 10s, found %v", p.timeout)
	}
	if p.server && !changed("size") {
		p.size = rpingMaxSize
	}
	return p.checkProtocol()
}

// checkProtocol makes the device and the protocol agree.
func (p *rping) checkProtocol() error {
	device := &p.source
	if p.server {
		device = &p.addr
	}
	if err := p.protocol.join(device); err != nil {
		return err
	}
	if p.own && p.protocol.iwarp() {
		return usageErrorf("-q: iWARP takes a queue pair through its states with its connection: %w", errors.ErrUnsupported)
	}
	return nil
}

// at is the address of the server as package net writes it.
func (p *rping) at() string { return net.JoinHostPort(p.addr, strconv.Itoa(int(p.port))) }

// everywhere is what a server listens on: every address, of which a device has
// one.
func (p *rping) everywhere(dev *verbs.Device) netip.AddrPort {
	if a, err := netip.ParseAddr(p.addr); dev == nil && err == nil {
		return netip.AddrPortFrom(a, p.port)
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), p.port)
}

// param is what both ends tell the connection manager: rping needs one READ in
// flight, the server's.
func (p *rping) param() rdmacm.ConnParam {
	return rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1}
}

func (p *rping) print(format string, args ...any) {
	p.printing.Lock()
	defer p.printing.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// An rpingRecord is a result in JSON.
type rpingRecord struct {
	Client    string  `json:"client,omitempty"` // of a server's
	Pings     int     `json:"pings"`
	Bytes     int     `json:"bytes,omitempty"` // of a ping, of a client's
	Validated bool    `json:"validated"`
	Seconds   float64 `json:"seconds,omitempty"` // of a client's
	Usec      float64 `json:"usec_per_ping,omitempty"`
}

// result prints a result: in words, or with --json as an object.
func (p *rping) result(r rpingRecord, format string, args ...any) error {
	if !p.json {
		p.note(format, args...)
		return nil
	}
	r.Validated = p.validate
	p.printing.Lock()
	defer p.printing.Unlock()
	return json.NewEncoder(p.cmd.OutOrStdout()).Encode(r)
}

// note prints what a server has to say of a client.
func (p *rping) note(format string, args ...any) {
	if p.notes != nil {
		p.notes.line(format, args...)
		return
	}
	p.print(format, args...)
}

func (p *rping) debugf(format string, args ...any) {
	if p.debug {
		p.printing.Lock()
		defer p.printing.Unlock()
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// showPing prints a ping up to its zero byte.
func (p *rping) showPing(what string, ping []byte) {
	if p.verbose {
		p.print("%s: %s", what, pingText(ping))
	}
}

// pings is a number of pings in words.
func pings(n int) string {
	if n == 1 {
		return "1 ping"
	}
	return strconv.Itoa(n) + " pings"
}

// validated is what the last line says of the data.
func (p *rping) validated() string {
	if p.validate {
		return ", data validated"
	}
	return ""
}

// runClient pings the server.
func (p *rping) runClient(ctx context.Context) (err error) {
	dev, err := localDevice(ctx, p.cmd, p.source, p.at(), p.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.close()) }()
	dial, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	end, err := p.resolve(dial, dev.Device)
	if err != nil {
		return connectError(ctx, err, p.at(), "softrdma rping -s", p.protocol, p.timeout)
	}
	endCapture := func() error { return nil }
	if dev.Device == nil {
		if endCapture, err = captureDevice(p.cmd, end.Device()); err != nil {
			return errors.Join(err, end.abandon())
		}
	}
	defer func() { err = errors.Join(err, endCapture()) }()
	s, err := newRpingSide(p, end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.connect(dial); err != nil {
		return connectError(ctx, err, p.at(), "softrdma rping -s", p.protocol, p.timeout)
	}
	p.debugf("connected to %v from %v", s.link.RemoteAddr(), end.Device().Addr())
	start := time.Now()
	done, err := s.ping(ctx)
	if took := time.Since(start); done > 0 && (err == nil || ctx.Err() != nil) {
		each := float64(took) / float64(time.Microsecond) / float64(done)
		r := rpingRecord{Pings: done, Bytes: int(p.size), Seconds: took.Seconds(), Usec: each}
		err = errors.Join(err, p.result(r, "%s of %d bytes in %.3f seconds, %.2f usec/ping%s", pings(done), p.size, took.Seconds(), each, p.validated()))
	}
	return err
}
