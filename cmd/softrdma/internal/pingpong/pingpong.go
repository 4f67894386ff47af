package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

const long = `Bounces messages between two machines and tells how long it took.

Without HOST it waits for a peer, with HOST it goes to the one that waits
there. The peer is softrdma pingpong, or ibv_rc_pingpong, ibv_uc_pingpong,
ibv_ud_pingpong or ibv_srq_pingpong of the Linux RDMA tools, which need
-g INDEX with the index of a RoCE v2 GID. Both sides need the same -t, -s, -m
and -n (and -q with -t srq); those of the Linux tools are the defaults here.

The sides find each other by TCP (port 18515), the messages travel by RoCE v2
(UDP port 4791). With -R at both sides they find each other through the RDMA
connection manager, on the same port number of its own: UDP port 4791 is all
that is used then. That is for softrdma at both ends and -t rc; the path MTU is
the connection manager's, and without -d the one that waits does so on every
address.

With --json the result is one object on standard output: type (rc, uc, ud or
srq), iters, size (bytes of a message), bytes (both ways), seconds,
mbit_per_second and usec_per_iter. Everything else goes to standard error.`

const example = `  softrdma pingpong                          wait on the best address
  softrdma pingpong HOST                     ping the one that waits there

  softrdma pingpong -d 127.0.0.1             both on one machine: two addresses
  softrdma pingpong -d 127.0.0.2 127.0.0.1

  softrdma pingpong -R                       through the connection manager
  softrdma pingpong -R HOST

  ibv_rc_pingpong -d rxe0 -g 1               on a machine with Soft RoCE ...
  softrdma pingpong HOST                     ... and ping it from here`

// A command is the command with its flags.
type command struct {
	cmd      *cobra.Command
	out      io.Writer
	service  string
	device   string
	gidIndex int
	port     uint16
	size     cli.ByteSize
	mtu      int
	iters    int
	rxDepth  int
	numQP    int
	events   bool
	check    bool
	sl       int
	timeout  time.Duration
	json     bool
	managed  bool // connect through the connection manager
	protocol cli.Protocol
	host     string // empty: wait for the peer
}

// services are the values of -t.
var services = []string{"rc", "uc", "ud", "srq"}

func NewCommand() *cobra.Command {
	p := &command{size: 4096}
	cmd := &cobra.Command{
		Use: "pingpong [flags] [HOST]", Short: "Bounce messages with a softrdma or an ibv_*_pingpong",
		Long: long, Example: example, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.cmd, p.out = cmd, cmd.OutOrStdout()
			if p.json {
				p.out = cmd.ErrOrStderr()
			}
			if len(args) > 0 {
				p.host = args[0]
			}
			if err := p.checkFlags(); err != nil {
				return err
			}
			if p.managed {
				return p.runManaged(cmd.Context())
			}
			return p.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.service, "type", "t", "rc", "`SERVICE`: rc, uc, ud, or srq (rc with a shared receive queue)")
	f.StringVarP(&p.device, "device", "d", "", "`INTERFACE-OR-ADDRESS` to use, for iWARP behind \"iwarp:\"; daemon: or daemon:SOCKET/rxe1 for a daemon's (default: the best address)")
	f.IntVarP(&p.gidIndex, "gid-idx", "g", 0, "`INDEX` of the local GID")
	f.Uint16VarP(&p.port, "port", "p", 18515, "TCP `PORT` on which the sides find each other")
	f.VarP(&p.size, "size", "s", "bytes of a message (ud: 1024)")
	f.IntVarP(&p.mtu, "mtu", "m", 1024, "path `MTU`: 256, 512, 1024, 2048 or 4096")
	f.IntVarP(&p.iters, "iters", "n", 1000, "`NUMBER` of exchanges")
	f.IntVarP(&p.rxDepth, "rx-depth", "r", 500, "`NUMBER` of receives to post at a time")
	f.IntVarP(&p.numQP, "num-qp", "q", 16, "`NUMBER` of queue pairs (srq)")
	f.BoolVarP(&p.events, "events", "e", false, "sleep until a completion comes, do not poll")
	f.BoolVarP(&p.check, "chk", "c", false, "validate the messages (at both sides)")
	f.IntVarP(&p.sl, "sl", "l", 0, "service `LEVEL`, 0 to 7: the packets' class selector")
	f.BoolVarP(&p.managed, "rdma-cm", "R", false, "connect through the RDMA connection manager, not by TCP (at both sides)")
	p.protocol.AddFlag(f, "; iwarp wants -R")
	f.DurationVar(&p.timeout, "timeout", 10*time.Second, "how long the peer may say nothing")
	f.BoolVar(&p.json, "json", false, "print the result as one JSON object")
	cli.AddDeviceFlags(cmd)
	cli.CompleteFlag(cmd, "type", services...)
	return cmd
}

// CheckFlags refuses what cannot work before anything is opened.
func (p *command) checkFlags() error {
	p.service = strings.ToLower(p.service)
	if err := p.protocol.Reconcile(&p.device); err != nil {
		return err
	}
	switch {
	case !slices.Contains(services, p.service):
		return cli.UsageErrorf("-t: expected rc, uc, ud or srq, found %q", p.service)
	case p.size < 1 || p.size > verbs.MaxMessage:
		return cli.UsageErrorf("-s: expected 1 to %d bytes, found %d", int64(verbs.MaxMessage), p.size)
	case p.iters < 1:
		return cli.UsageErrorf("-n: expected at least 1, found %d", p.iters)
	case p.rxDepth < 1 || p.rxDepth > verbs.MaxQueueDepth:
		return cli.UsageErrorf("-r: expected 1 to %d, found %d", verbs.MaxQueueDepth, p.rxDepth)
	case p.protocol.IWARP() && (p.service == "uc" || p.service == "ud"):
		return cli.UsageErrorf("-t %s: iWARP has reliable connections alone: %w", p.service, errors.ErrUnsupported)
	case p.protocol.IWARP() && !p.managed:
		return cli.UsageErrorf("iWARP connects queue pairs through the connection manager alone, expected -R (at both sides): %w", errors.ErrUnsupported)
	case p.port == 0:
		return cli.UsageErrorf("-p: expected 1 to 65535, found 0")
	case p.sl < 0 || p.sl > 7:
		return cli.UsageErrorf("-l: expected 0 to 7, found %d", p.sl)
	case p.gidIndex < 0:
		return cli.UsageErrorf("-g: expected an index from 0, found %d", p.gidIndex)
	case p.timeout <= 0:
		return cli.UsageErrorf("--timeout: expected a positive duration such as 10s, found %v", p.timeout)
	case !slices.Contains([]int{256, 512, 1024, 2048, 4096}, p.mtu):
		return cli.UsageErrorf("-m: expected 256, 512, 1024, 2048 or 4096, found %d", p.mtu)
	}
	if p.managed {
		if err := p.checkManaged(); err != nil {
			return err
		}
	}
	if p.service == "srq" {
		if p.numQP < 1 || p.numQP > maxQPs {
			return cli.UsageErrorf("-q: expected 1 to %d, found %d", maxQPs, p.numQP)
		}
		if p.numQP > p.rxDepth {
			return cli.UsageErrorf("-r %d is too small for %d queue pairs: each needs a receive", p.rxDepth, p.numQP)
		}
		return nil
	}
	if p.cmd.Flags().Changed("num-qp") {
		return cli.UsageErrorf("-q is for -t srq only")
	}
	if p.service == "ud" {
		if p.cmd.Flags().Changed("mtu") {
			return cli.UsageErrorf("-m is not for -t ud: a datagram is a packet")
		}
		if !p.cmd.Flags().Changed("size") {
			p.size = 1024
		}
	}
	return nil
}

// checkDevice refuses what the device cannot do.
func (p *command) checkDevice(dev *verbs.Device) error {
	mtu := dev.QueryPort().ActiveMTU
	switch n := len(dev.GIDs()); {
	case p.gidIndex >= n:
		return cli.UsageErrorf("-g %d: %v has the GIDs 0 to %d (see: softrdma devices -v)", p.gidIndex, dev.Addr().Addr(), n-1)
	case p.service == "ud" && int64(p.size) > int64(mtu):
		return cli.UsageErrorf("-s %d: a datagram of %s is at most %d bytes, its MTU", p.size, dev.Name(), mtu)
	case p.service != "ud" && p.mtu > mtu:
		return cli.UsageErrorf("-m %d: the MTU of %s is %d", p.mtu, dev.Name(), mtu)
	}
	return nil
}

func (p *command) run(ctx context.Context) (err error) {
	dev, closeDevice, err := cli.OpenDevice(p.cmd, p.device, verbs.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDevice()) }()
	if err := p.checkDevice(dev); err != nil {
		return err
	}
	r, err := newSession(p, dev, nil)
	if err != nil {
		return err
	}
	if err := p.exchangeAddresses(ctx, r); err != nil {
		return err
	}
	start := time.Now()
	if err := r.run(ctx); err != nil {
		return err
	}
	err = p.report(time.Since(start))
	p.linger(ctx)
	return err
}

// lingerTime is some times as long as a peer waits for an acknowledge (timeout
// 14, 67 ms) before it sends again.
const lingerTime = 300 * time.Millisecond

// linger keeps a connected queue pair for a while after its last message. The
// peer's last send is complete when its acknowledge has come. Were that lost, and
// nobody here to answer the repetition, Linux's Soft RoCE would repeat it for ever.
func (p *command) linger(ctx context.Context) {
	if p.service != "rc" && p.service != "srq" {
		return
	}
	t := time.NewTimer(lingerTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// exchangeAddresses exchanges the addresses with the peer and connects the queue pairs. The
// server's are ready before it tells where they are, as the client sends at
// once.
func (p *command) exchangeAddresses(ctx context.Context, r *session) error {
	if p.host != "" {
		p.print("local", r.local)
		e, err := dialExchange(ctx, p.host, p.port, p.timeout)
		if err != nil {
			return err
		}
		defer e.close()
		if err := e.send(ctx, r.local); err != nil {
			return err
		}
		remote, err := e.receive(ctx, len(r.local))
		if err != nil {
			return err
		}
		if err := e.sendDone(ctx); err != nil {
			return err
		}
		p.print("remote", remote)
		return r.connect(remote)
	}
	l, err := listenExchange(ctx, p.port)
	if err != nil {
		return err
	}
	p.print("local", r.local)
	e, err := acceptExchange(ctx, l, p.timeout)
	if err != nil {
		return err
	}
	defer e.close()
	remote, err := e.receive(ctx, len(r.local))
	if err != nil {
		return err
	}
	p.print("remote", remote)
	if err := r.connect(remote); err != nil {
		return err
	}
	if err := e.send(ctx, r.local); err != nil {
		return err
	}
	return e.receiveDone(ctx)
}

// print shows the addresses of a side as the Linux tools do, letter by letter.
func (p *command) print(side string, list []destination) {
	sep := ","
	if p.service == "ud" && side == "local" {
		sep = ":"
	}
	for i := range list[:p.queuePairs()] {
		fmt.Fprintln(p.out, list[i].line(side, sep))
	}
}

func (p *command) queuePairs() int {
	if p.service == "srq" {
		return p.numQP
	}
	return 1
}

// A record is a result in JSON.
type record struct {
	Type    string  `json:"type"`
	Iters   int     `json:"iters"`
	Size    int64   `json:"size"`  // bytes of a message
	Bytes   int64   `json:"bytes"` // both ways
	Seconds float64 `json:"seconds"`
	Mbit    float64 `json:"mbit_per_second"`
	Usec    float64 `json:"usec_per_iter"`
}

func (p *command) report(took time.Duration) error {
	bytes := int64(p.size) * int64(p.iters) * 2
	usec := float64(took) / float64(time.Microsecond)
	if p.json {
		return cli.WriteJSON(p.cmd.OutOrStdout(), record{
			p.service, p.iters, int64(p.size), bytes, took.Seconds(), float64(bytes) * 8 / usec, usec / float64(p.iters),
		})
	}
	fmt.Fprintf(p.out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, took.Seconds(), float64(bytes)*8/usec)
	fmt.Fprintf(p.out, "%d iters in %.2f seconds = %.2f usec/iter\n", p.iters, took.Seconds(), usec/float64(p.iters))
	return nil
}
