// Package run is the command that starts the programs of a group, on this host and on others, and
// lets them exchange their addresses. Package coll joins them.
package run

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/launch"
	"softrdma/internal/tlsfiles"
)

const long = `Starts a number of processes of a program, called ranks, which find each other by
coll.World of softrdma's Go packages. Without --hosts all ranks run on this host. With it,
softrdma starts itself on the other hosts by ssh. A host may have a number of ranks
("a,b:2"). The name localhost is this host.

The environment of each rank has

  SOFTRDMA_RANK, SOFTRDMA_SIZE              its number, and that of all ranks
  SOFTRDMA_LOCAL_RANK, SOFTRDMA_LOCAL_SIZE  the same among those on its host
  SOFTRDMA_RUN, SOFTRDMA_RUN_SECRET         where ranks exchange addresses
  SOFTRDMA_DEVICE                           the device of --device, if that is given

Rank 0 has standard input. Output appears line by line; --label puts the rank before
each line. When a rank ends with an exit code other than 0 or by a signal, softrdma
ends the others, names the rank and its host, and exits with its exit code, or with 128
plus the number of the signal. SIGHUP, SIGUSR1 and SIGUSR2 go to all ranks. SIGINT and
SIGTERM end all ranks.

On one host, each rank opens a device on a loopback address of its own. On several hosts
it uses the address by which it reaches the first host, and UDP ports from 4792, which
firewalls must allow. --device overrides that; "{rank}" and "{local}" in it stand for
the rank's numbers.

On other hosts the program has the environment of a login by ssh, the variables above
and those of --env, and the same working directory. Ranks there connect to this host
by TCP to exchange addresses.

With --psk-file or --tls-cert the devices of coll.World encrypt (RoCE v2 in PSP). Each
host needs the files, at the same path, and each certificate must be valid for the
addresses of its host's devices. Ranks on one host then do not use memory for their
packets. The exchange of addresses is authenticated and not encrypted.

From the first call of coll.World on, all ranks have --exchange-timeout to call it. Then,
or as soon as a rank has ended without a call, it fails at all of them with an error
that names the missing ranks.`

const example = `  softrdma run -n 4 -- ./train
  softrdma run -n 2 --label -- go run ./examples/train
  softrdma run --hosts node1:2,node2:2 -- ./train
  softrdma run -n 2 --device '127.0.9.{rank}' -- ./train`

// options holds the command's flags.
type options struct {
	n       int
	hosts   string
	label   bool
	device  string
	env     []string
	ssh     string
	remote  string
	address string
	agent   bool
	wait    time.Duration // time limit for the addresses of all ranks
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	s := options{}
	cmd := &cobra.Command{
		Use: "run [flags] -- PROGRAM [ARGS...]", Short: "Run the programs of a group, on one host or several",
		Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case s.agent && len(args) == 0:
				return serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			case len(args) == 0:
				return cli.UsageErrorf("expected a PROGRAM to run, as in softrdma run -n 2 -- hostname")
			}
			return run(cmd, &s, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after PROGRAM belong to the program
	f.IntVarP(&s.n, "ranks", "n", 0, "number of ranks; without it one, or those of --hosts")
	f.StringVar(&s.hosts, "hosts", "", "`HOSTS` to run on, with their numbers of ranks: a,b:2")
	f.BoolVar(&s.label, "label", false, "begin each line of output with the rank")
	f.StringVar(&s.device, "device", "", "`DEVICE` for each rank, which may have {rank} or {local} in it")
	f.StringArrayVar(&s.env, "env", nil, "`NAME` or NAME=VALUE of the environment for ranks on all hosts (repeatable)")
	f.StringVar(&s.ssh, "ssh", "ssh", "`COMMAND` that runs a command on a host, with the host and the command as last arguments")
	f.StringVar(&s.remote, "remote", "softrdma", "`PATH` of softrdma on other hosts")
	f.StringVar(&s.address, "address", "", "`ADDRESS` of this host for the others (default: the one that reaches the first of them)")
	f.DurationVar(&s.wait, "exchange-timeout", launch.DefaultWait, "give up when a rank's address is missing this `DURATION` after the first one's")
	f.BoolVar(&s.agent, "agent", false, "run the job on standard input, as the other end of --hosts")
	_ = f.MarkHidden("agent") // cannot fail: the flag exists
	cli.AddTLSFlags(cmd)
	return cmd
}

// run starts all ranks and waits for them.
func run(cmd *cobra.Command, s *options, program []string) error {
	if s.wait <= 0 {
		return cli.UsageErrorf("--exchange-timeout: expected a positive duration such as 5m, found %v", s.wait)
	}
	if cli.FlagGiven(cmd, "ranks") && s.n == 0 {
		return cli.UsageErrorf("-n: expected 1 to %d, found 0", launch.MaxRanks)
	}
	hosts, err := s.plan()
	if err != nil {
		return err
	}
	size, remote := 0, ""
	for _, h := range hosts {
		size += h.ranks
		if h.name != "" && remote == "" {
			remote = h.name
		}
	}
	address, err := s.ownAddress(remote)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	secret := launch.NewSecret()
	server := launch.Serve(l, secret, size, s.wait)
	defer server.Close()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	security, err := encryption(cmd)
	if err != nil {
		return err
	}
	j := job{Program: program, Dir: dir, Env: append(s.environment(), security...), Device: s.device, Size: size, Exchange: l.Addr().String(), Secret: hex.EncodeToString(secret)}
	out := &outputs{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), label: s.label, ended: server.Ended}
	err = s.start(cmd, hosts, j, out)
	if missing := server.Err(); err != nil && missing != nil { // probably the reason why a rank failed
		err = cli.WithCode(cli.ExitCode(err), fmt.Errorf("%w: %w", err, missing))
	}
	return err
}

// ownAddress returns the address of this host for the ranks.
func (s *options) ownAddress(remote string) (string, error) {
	switch {
	case s.address != "":
		return s.address, nil
	case remote == "":
		return "127.0.0.1", nil
	}
	c, err := net.Dial("udp", net.JoinHostPort(remote, "9")) // sends nothing
	if err != nil {
		return "", fmt.Errorf("address of this host for %s: %w (see --address)", remote, err)
	}
	defer c.Close()
	address, _, err := net.SplitHostPort(c.LocalAddr().String())
	return address, err
}

// environment returns the variables of --env.
func (s *options) environment() (env []string) {
	for _, v := range s.env {
		if !strings.Contains(v, "=") {
			v += "=" + os.Getenv(v)
		}
		env = append(env, v)
	}
	return env
}

// encryption returns the variables that name the files of the TLS flags, which have to exist here, too.
func encryption(cmd *cobra.Command) (env []string, err error) {
	files, err := cli.CheckTLSFlags(cmd)
	if err != nil {
		return nil, err
	}
	variables := tlsfiles.Variables
	for i, name := range variables.All() {
		file := *files.All()[i]
		if file == "" {
			continue
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		env = append(env, *name+"="+file)
	}
	return env, nil
}

// start runs the ranks of each host, until all have ended or one has failed.
func (s *options) start(cmd *cobra.Command, hosts []host, j job, out *outputs) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	signals, stop := notify()
	defer stop()
	var routes []chan os.Signal // one for each host
	results := make(chan error, len(hosts))
	first := 0
	var all sync.WaitGroup
	for _, h := range hosts {
		x := j
		x.First, x.Ranks, x.Host = first, h.ranks, h.name
		first += h.ranks
		forward := make(chan os.Signal, 8)
		routes = append(routes, forward)
		all.Go(func() {
			if h.name != "" {
				results <- s.there(ctx, x, out, cmd.InOrStdin(), forward)
				return
			}
			x.Host, _ = os.Hostname() // only used in messages
			if e := x.run(ctx, out, cmd.InOrStdin(), forward); e != nil {
				results <- e.error(x.Host)
				return
			}
			results <- nil
		})
	}
	go func() {
		for sig := range signals {
			for _, r := range routes {
				select {
				case r <- sig:
				default: // the host is busy with earlier ones
				}
			}
		}
	}()
	var failure error
	for range hosts {
		if err := <-results; err != nil && failure == nil {
			failure = err
			cancel() // ends the others
		}
	}
	all.Wait()
	out.flush()
	return failure
}

// there runs a job on another host.
func (s *options) there(ctx context.Context, j job, out *outputs, stdin io.Reader, signals <-chan os.Signal) error {
	words := strings.Fields(s.ssh)
	if len(words) == 0 {
		return cli.UsageErrorf("--ssh: expected a command")
	}
	c := exec.Command(words[0], append(words[1:], j.Host, quote(s.remote)+" run --agent")...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	events, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("host %s: %w", j.Host, err)
	}
	end, err := command(ctx, j, in, events, out, stdin, signals)
	if e := c.Wait(); e != nil && end == nil {
		err = s.noAgent(e)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case end != nil && end.Code != 0:
		return end.error(j.Host)
	case err != nil:
		return cli.PeerErrorf("host %s: %s: %w", j.Host, words[0], err)
	}
	return nil
}

// commandNotFound is the exit code of a shell, and so of ssh, for an unknown command.
const commandNotFound = 127

// noAgent explains why the command of --ssh has ended with an error before the ranks.
func (s *options) noAgent(err error) error {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) && e.ExitCode() == commandNotFound {
		return fmt.Errorf("%w: expected %s there: install softrdma in a directory of the PATH that ssh gives, or name its path by --remote", err, s.remote)
	}
	return fmt.Errorf("%w before the ranks there have ended", err)
}

// quote quotes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
