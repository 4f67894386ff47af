package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

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
)

// runOnDemand joins the server of these arguments, user and network namespace, or becomes it. The
// preloaded library reads two lines from standard output, the paths of the socket and of the tree, or an
// error. From then on a server has no output.
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
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", found.Socket, found.Tree)
			return err
		}
		dir, leave, err := ondemand.Take(args)
		switch {
		case err == nil:
			defer leave()
			return s.becomeServer(cmd, cfg, dir)
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
	cfg.Dir, cfg.Socket = dir, filepath.Join(dir, "socket")
	if err := removeLeft(cfg.Socket, dir); err != nil {
		return err
	}
	if s.idle == 0 {
		s.idle = idleOnDemand
	}
	return s.serve(cmd, cfg, func([]string, []*verbs.Device) error {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", cfg.Socket, filepath.Join(dir, "tree")); err != nil {
			return err
		}
		return silence()
	})
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
