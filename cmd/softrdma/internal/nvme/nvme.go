// Package nvme is the command that serves and uses block devices by NVMe over Fabrics. Packages
// storage/nvmeof/target and storage/nvmeof/host do the work.
package nvme

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

const long = `Serves files and memory as disks by NVMe over Fabrics on RDMA, and reads and writes those of
other targets.

"nvme serve" is the target. Linux attaches its disks with nvme-cli and the module
nvme-rdma. The other commands are a host: they use any target, such as Linux's nvmet-rdma.
"nvme serve-nbd" serves a target's disk to QEMU and other clients of NBD.`

const example = `  softrdma nvme serve --subsystem nqn.2024-01.org.example:disk --namespace disk.img,1G
  softrdma nvme discover HOST
  softrdma nvme list HOST --subsystem nqn.2024-01.org.example:disk
  softrdma nvme read HOST --subsystem nqn.2024-01.org.example:disk --length 1M > first.bin
  nvme connect -t rdma -a HOST -s 4420 -n nqn.2024-01.org.example:disk`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "nvme", Short: "Serve and use disks by NVMe over Fabrics",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newServe(), newDiscover(), newList(), newRead(), newWrite(), newBench(), newServeNBD())
	return cmd
}

// A client has the flags of the commands that connect to a target.
type client struct {
	cmd       *cobra.Command
	source    string
	protocol  cli.Protocol
	timeout   time.Duration
	subsystem string
	hostNQN   string
	secrets   string
	reconnect reconnect

	device cli.Device
	lost   atomic.Int64 // connections
}

// A reconnect has the flags of what happens when a connection has ended.
type reconnect struct{ delay, loss, fail time.Duration }

// addReconnectFlags adds the flags of commands that continue when a connection has ended.
func (c *client) addReconnectFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&c.reconnect.delay, "reconnect-delay", time.Second, "if a connection has ended, try again after each `DURATION`")
	f.DurationVar(&c.reconnect.loss, "loss-timeout", 10*time.Minute, "give up a connection that was not there for this `DURATION`; 0 at once, -1s never")
	f.DurationVar(&c.reconnect.fail, "fast-fail", 0, "let commands fail after this `DURATION` without a connection, while it is tried again; 0: they wait")
}

// hosts checks the arguments of commands that use a subsystem by one address or several.
var hosts = cli.Args(1, 16, "the HOST of the target")

// addFlags adds the flags. A command for one subsystem needs its name.
func (c *client) addFlags(cmd *cobra.Command, subsystem bool) {
	c.cmd = cmd
	f := cmd.Flags()
	f.SortFlags = false
	if subsystem {
		f.StringVarP(&c.subsystem, "subsystem", "n", "", "qualified name `NQN` of the subsystem")
		_ = cmd.MarkFlagRequired("subsystem")
	}
	f.StringVar(&c.hostNQN, "host", "", "qualified name `NQN` of this host, if the target asks who it is")
	f.StringVar(&c.secrets, "dhchap-secret", "", "authenticate with the host's secrets in `FILE`, as of nvme serve")
	cli.SourceFlag(f, &c.source)
	c.protocol.AddFlag(f, "")
	f.DurationVar(&c.timeout, "timeout", 10*time.Second, "give up connecting after this `DURATION`")
	cli.AddDeviceFlags(cmd)
}

// address returns "host:port" of the argument HOST[:PORT].
func address(arg string) string {
	if a, err := netip.ParseAddr(arg); err == nil {
		return net.JoinHostPort(a.String(), strconv.Itoa(fabrics.Port))
	}
	if _, _, err := net.SplitHostPort(arg); err == nil {
		return arg
	}
	return net.JoinHostPort(arg, strconv.Itoa(fabrics.Port))
}

// open opens the device that the flags name.
func (c *client) open(ctx context.Context, at string) (_ rdmacm.Dialer, err error) {
	if err := cli.CheckTimeout(c.timeout); err != nil {
		return rdmacm.Dialer{}, err
	}
	if err := c.protocol.Reconcile(&c.source); err != nil {
		return rdmacm.Dialer{}, err
	}
	if c.device, err = cli.OpenLocal(ctx, c.cmd, c.source, at, c.protocol); err != nil {
		return rdmacm.Dialer{}, err
	}
	return rdmacm.Dialer{Device: c.device.Device, Protocol: c.protocol.Verbs()}, nil
}

// config returns what to connect with.
func (c *client) config(ctx context.Context, at string) (host.Config, error) {
	cfg := host.Config{Subsystem: c.subsystem, Host: cmp.Or(c.hostNQN, host.DefaultNQN)}
	if c.secrets != "" {
		table, err := readSecrets(c.secrets)
		if err != nil {
			return cfg, err
		}
		cfg.Secrets = table.For(cfg.Host)
	}
	var err error
	cfg.Dialer, err = c.open(ctx, at)
	return cfg, err
}

// failed explains why a target could not be used.
func (c *client) failed(ctx context.Context, at string, err error) error {
	var status *status.Error
	var reject *host.RejectError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.As(err, &reject):
		return cli.PeerErrorf("%s: %v: %s", at, reject.Status, reject.Status.Text())
	}
	return cli.ConnectError(ctx, err, at, "softrdma nvme serve", c.protocol, c.timeout)
}

// with connects to a subsystem and calls f.
func (c *client) with(ctx context.Context, arg string, queues int, f func(*host.Controller) error) (err error) {
	at := address(arg)
	cfg, err := c.config(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.device.Close()) }()
	cfg.Queues = queues
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	k, err := host.Dial(within, at, cfg)
	if err != nil {
		return c.failed(ctx, at, err)
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(k.Close())) }()
	return lost(f(k))
}

// connect connects to a subsystem by all addresses, and calls f.
func (c *client) connect(ctx context.Context, args []string, cfg host.Config, f func(*host.Subsystem) error) (err error) {
	var paths []host.Path
	for _, arg := range args {
		paths = append(paths, host.Path{Addr: address(arg)})
	}
	first, err := c.config(ctx, paths[0].Addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.device.Close()) }()
	cfg.Subsystem, cfg.Host, cfg.Secrets, cfg.Dialer = first.Subsystem, first.Host, first.Secrets, first.Dialer
	cfg.ReconnectDelay, cfg.LossTimeout, cfg.FastFail = c.reconnect.delay, c.reconnect.loss, c.reconnect.fail
	notes := cli.NewPrinter(c.cmd.ErrOrStderr())
	cfg.Events = func(e host.Event) {
		if e.Kind == host.Lost {
			c.lost.Add(1)
		}
		notes.Println(cli.Text(e.String()))
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s, err := host.Connect(within, cfg, paths...)
	if err != nil {
		return c.failed(ctx, paths[0].Addr, err)
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(s.Close())) }()
	return lost(f(s))
}

// lost returns an error with the exit code of a lost peer if the connection has ended.
func lost(err error) error {
	if errors.As(err, new(*host.LostError)) || errors.Is(err, rdmacm.ErrDisconnected) || errors.As(err, new(*verbs.CompletionError)) {
		return cli.PeerErrorf("%w", err)
	}
	return err
}
