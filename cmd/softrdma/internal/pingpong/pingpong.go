// Package pingpong is the command that exchanges messages with ibv_*_pingpong or with
// itself, including their address exchange over TCP.
package pingpong

import (
	"cmp"
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

const long = `Sends messages back and forth between two hosts and reports how long it took.

Without HOST it waits for a peer; with HOST it connects to the peer that waits
there. The peer is softrdma pingpong, or ibv_rc_pingpong, ibv_uc_pingpong,
ibv_ud_pingpong or ibv_srq_pingpong of rdma-core, which need -g INDEX with the
index of a RoCE v2 GID. Both sides need the same -t, -s, -m and -n (and -q with
-t srq). The defaults are those of the rdma-core programs.

The two sides exchange their addresses over TCP (port 18515). Messages travel over
RoCE v2 (UDP port 4791). With -R at both sides the RDMA connection manager
exchanges the addresses, on the same number in its own port space, so that only
UDP port 4791 is used. -R needs softrdma at both ends and -t rc. The connection
manager then chooses the path MTU, and a server without -d listens on every
address.

With --json the result is one object on standard output: type (rc, uc, ud or
srq), iters, size (bytes of a message), bytes (in both directions), seconds,
mbit_per_second and usec_per_iter. All other output goes to standard error.`

const example = `  softrdma pingpong                          wait on the best address
  softrdma pingpong HOST                     ping the peer that waits on HOST

  softrdma pingpong -d 127.0.0.1             two addresses on one machine
  softrdma pingpong -d 127.0.0.2 127.0.0.1

  softrdma pingpong -R                       with the connection manager
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
	noGID    bool // -g was not given
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
	host     string     // empty for the side that waits
	path     verbs.Path // of the first connection
}

// services lists the values of -t.
var services = []string{"rc", "uc", "ud", "srq"}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	p := &command{size: 4096}
	cmd := &cobra.Command{
		Use: "pingpong [flags] [HOST]", Short: "Send messages back and forth with softrdma or ibv_*_pingpong",
		Long: long, Example: example, Args: cli.Args(0, 1, "the HOST of the server, or nothing for a server"),
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
	f.StringVarP(&p.service, "type", "t", "rc", "transport `SERVICE`: rc, uc, ud, or srq (rc with a shared receive queue)")
	cli.DeviceFlag(f, &p.device, "the best address")
	f.IntVarP(&p.gidIndex, "gid-idx", "g", 0, "`INDEX` of the local GID")
	f.Uint16VarP(&p.port, "port", "p", 18515, "TCP `PORT` for exchanging addresses")
	f.VarP(&p.size, "size", "s", "message size (ud: 1024)")
	f.IntVarP(&p.mtu, "mtu", "m", 1024, "path `MTU`: 256, 512, 1024, 2048 or 4096")
	f.IntVarP(&p.iters, "iters", "n", 1000, "`NUMBER` of exchanges")
	f.IntVarP(&p.rxDepth, "rx-depth", "r", 500, "`NUMBER` of receives to post at a time")
	f.IntVarP(&p.numQP, "num-qp", "q", 16, "`NUMBER` of queue pairs (srq)")
	f.BoolVarP(&p.events, "events", "e", false, "wait for completion events instead of polling")
	f.BoolVarP(&p.check, "chk", "c", false, "validate received messages (at both sides)")
	f.IntVarP(&p.sl, "sl", "l", 0, "service `LEVEL`, 0 to 7: the class selector of packets")
	f.BoolVarP(&p.managed, "rdma-cm", "R", false, "connect with the RDMA connection manager instead of TCP (at both sides)")
	p.protocol.AddFlag(f, "; iwarp needs -R")
	cli.SilenceFlag(f, &p.timeout)
	f.BoolVar(&p.json, "json", false, "print the result as one JSON object")
	cli.AddDeviceFlags(cmd)
	cli.CompleteFlag(cmd, "type", services...)
	return cmd
}

// checkFlags checks the flags before anything is opened.
func (p *command) checkFlags() error {
	p.service = strings.ToLower(p.service)
	p.noGID = !p.cmd.Flags().Changed("gid-idx")
	if err := p.nameDevice(); err != nil {
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
		return cli.UsageErrorf("-t %s: iWARP supports reliable connections only: %w", p.service, errors.ErrUnsupported)
	case p.protocol.IWARP() && !p.managed:
		return cli.UsageErrorf("iWARP needs the connection manager: expected -R (at both sides): %w", errors.ErrUnsupported)
	case p.sl < 0 || p.sl > 7:
		return cli.UsageErrorf("-l: expected 0 to 7, found %d", p.sl)
	case p.gidIndex < 0:
		return cli.UsageErrorf("-g: expected an index from 0, found %d", p.gidIndex)
	}
	if err := cmp.Or(cli.CheckPort(p.port), cli.CheckTimeout(p.timeout), cli.CheckMTU(p.mtu)); err != nil {
		return err
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
			return cli.UsageErrorf("-m does not apply to -t ud: a datagram is one packet")
		}
		if !p.cmd.Flags().Changed("size") {
			p.size = 1024
		}
	}
	return nil
}

// nameDevice makes -d and --protocol agree. Without -d the connection manager of -R chooses a device.
func (p *command) nameDevice() (err error) {
	if err := p.protocol.Reconcile(&p.device); err != nil || p.managed {
		return err
	}
	p.device, err = p.protocol.OpenName(p.device)
	return err
}

// checkDevice checks that the device supports what the flags ask for.
func (p *command) checkDevice(dev *verbs.Device) error {
	mtu := dev.QueryPort().ActiveMTU
	switch n := len(dev.GIDs()); {
	case p.gidIndex >= n:
		return cli.UsageErrorf("-g %d: %v has the GIDs 0 to %d (see: softrdma devices -v)", p.gidIndex, dev.Addr().Addr(), n-1)
	case p.service == "ud" && int64(p.size) > int64(mtu):
		return cli.UsageErrorf("-s %d: a datagram of %s is at most %d bytes, its MTU", p.size, dev.Name(), mtu)
	case p.service != "ud" && p.mtu > mtu:
		return cli.UsageErrorf("-m: expected at most %d, the path MTU of %s, found %d: give -m %d at both sides", mtu, dev.Name(), p.mtu, mtu)
	}
	return nil
}

func (p *command) run(ctx context.Context) (err error) {
	dev, err := cli.OpenDevice(p.cmd, p.device, verbs.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if err := p.checkDevice(dev.Device); err != nil {
		return err
	}
	r, err := newSession(p, dev.Device, nil)
	if err != nil {
		return err
	}
	if err := p.exchangeAddresses(ctx, r); err != nil {
		return err
	}
	p.printPath(r)
	start := time.Now()
	if err := r.run(ctx); err != nil {
		return err
	}
	err = p.report(time.Since(start))
	p.linger(ctx)
	return err
}

// lingerTime is several times the peer's acknowledge timeout (14, 67 ms).
const lingerTime = 300 * time.Millisecond

// linger keeps a connected queue pair for a while after its last message. The
// acknowledge of the peer's last message may be lost. If nothing answered the
// retransmission, Linux's Soft RoCE would repeat it forever.
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

// exchangeAddresses exchanges addresses with the peer and connects the queue pairs. The
// server's are ready before it sends its addresses, because the client then sends at
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

// printPath prints the path of the first connection. Datagrams have none.
func (p *command) printPath(r *session) {
	if p.service == "ud" {
		return
	}
	p.path = r.qps[0].Path()
	fmt.Fprintf(p.out, "  path:           %s\n", p.path)
}

// print prints the addresses of one side exactly as the Linux tools do.
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

// A record is the result in JSON.
type record struct {
	Type    string     `json:"type"`
	Iters   int        `json:"iters"`
	Size    int64      `json:"size"`  // bytes of a message
	Bytes   int64      `json:"bytes"` // in both directions
	Seconds float64    `json:"seconds"`
	Mbit    float64    `json:"mbit_per_second"`
	Usec    float64    `json:"usec_per_iter"`
	Path    verbs.Path `json:"path,omitempty"` // of the first connection
}

func (p *command) report(took time.Duration) error {
	bytes := int64(p.size) * int64(p.iters) * 2
	usec := float64(took) / float64(time.Microsecond)
	if p.json {
		return cli.WriteJSON(p.cmd.OutOrStdout(), record{
			p.service, p.iters, int64(p.size), bytes, took.Seconds(), float64(bytes) * 8 / usec, usec / float64(p.iters), p.path,
		})
	}
	fmt.Fprintf(p.out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, took.Seconds(), float64(bytes)*8/usec)
	fmt.Fprintf(p.out, "%d iters in %.2f seconds = %.2f usec/iter\n", p.iters, took.Seconds(), usec/float64(p.iters))
	return nil
}
