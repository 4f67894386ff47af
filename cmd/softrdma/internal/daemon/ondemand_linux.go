package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/host"
	"softrdma/internal/ondemand"
	"softrdma/internal/uverbs"
	"softrdma/verbs"
)

const (
	// idleOnDemand is how long a server on demand outlives its last program. The next program of a
	// script should find it.
	idleOnDemand = 5 * time.Second

	// startTime is how long the start may take. start.c waits for a second more.
	startTime = 9 * time.Second

	// lookAgain is the time between attempts while another process starts the server, or ends it.
	lookAgain = 2 * time.Millisecond

	// tryAddress is the time between attempts to open an address that a server has which may end soon.
	tryAddress = 100 * time.Millisecond
)

// runOnDemand joins the server of these arguments, user and network namespace, or becomes it. The
// preloaded library reads two lines from standard output, the paths of the socket and of the tree, or an
// error. If the process has become the server the lines begin with "+", and it has no output from then on.
func (s *options) runOnDemand(cmd *cobra.Command, cfg uverbs.Config) error {
	args := os.Args[1:]
	ctx, cancel := context.WithTimeout(cmd.Context(), startTime)
	defer cancel()
	for {
		found, err := ondemand.Find(ctx, args)
		if err != nil {
			return err
		}
		if found != nil {
			return tell(cmd, found.Socket, found.Tree)
		}
		dir, leave, err := ondemand.Take(args)
		switch {
		case err == nil:
			defer leave()
			err := s.becomeServer(cmd, cfg, dir)
			if !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
			if other := s.other(ctx, cmd); other != nil {
				return tell(cmd, other.Socket, other.Tree)
			}
			return s.succeed(ctx, cmd, cfg, dir, err)
		case !errors.Is(err, ondemand.ErrTaken):
			return err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return fmt.Errorf("no server after %v: %w", startTime, err)
		}
	}
}

// becomeServer serves in a directory of ondemand.Take.
func (s *options) becomeServer(cmd *cobra.Command, cfg uverbs.Config, dir string) error {
	cfg.Dir, cfg.Socket, cfg.Behind = dir, filepath.Join(dir, "socket"), true
	if err := removeLeft(cfg.Socket, dir); err != nil {
		return err
	}
	if s.idle == 0 {
		s.idle = idleOnDemand
	}
	return s.serve(cmd, cfg, func([]string, []*verbs.Device) error {
		if err := tell(cmd, "+"+cfg.Socket, filepath.Join(dir, "tree")); err != nil {
			return err
		}
		return silence()
	})
}

// succeed becomes the server when one of other devices, which has the address, has ended. Err is that of
// the first attempt.
func (s *options) succeed(ctx context.Context, cmd *cobra.Command, cfg uverbs.Config, dir string, err error) error {
	for errors.Is(err, syscall.EADDRINUSE) && ondemand.Others(dir) {
		select {
		case <-time.After(tryAddress):
		case <-ctx.Done():
			return err
		}
		err = s.becomeServer(cmd, cfg, dir)
	}
	return err
}

// tell tells the preloaded library where the server is.
func tell(cmd *cobra.Command, socket, tree string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", socket, tree)
	return err
}

// other returns a server that has the same devices, although another command has started it: one device
// by its address, for example, that the other command has chosen by itself.
func (s *options) other(ctx context.Context, cmd *cobra.Command) *ondemand.Server {
	given, err := cli.DeviceArguments(cmd)
	if err != nil || len(given) > 0 {
		return nil // whose devices differ
	}
	names, err := s.protocol.OpenNames(s.devices)
	if err != nil {
		return nil
	}
	var wanted []string
	for _, name := range names {
		prefix, at := cli.SplitProtocol(name)
		c, err := host.DefaultDevice()
		if at != "" {
			c, err = host.Resolve(at)
		}
		if err != nil || prefix == cli.InfiniBandPrefix || c.Addr.Port() != host.Port {
			return nil
		}
		protocol := cli.Protocol(strings.TrimSuffix(prefix, ":"))
		wanted = append(wanted, fmt.Sprintf(" %v (%v", c.Addr.Addr(), protocol.Verbs()))
	}
	for _, server := range ondemand.All(ctx) {
		if slices.EqualFunc(server.Devices, wanted, strings.Contains) {
			return server
		}
	}
	return nil
}

// silence replaces standard output and standard error by /dev/null.
func silence() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return nil
}
