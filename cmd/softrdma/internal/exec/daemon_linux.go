package exec

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/daemon"
	"softrdma/internal/ondemand"
)

// askAgain is how long --wait sleeps between attempts.
const askAgain = 100 * time.Millisecond

// faultsFlag names the flag of cli.AddDeviceFlags with the rules of faults.
const faultsFlag = "faults"

// daemonSockets returns the sockets to look for a daemon at, and more after these, none if the program
// gets devices of its own.
func (s *options) daemonSockets(cmd *cobra.Command, more ...string) ([]string, error) {
	flag := ""
	switch {
	case s.socket != "":
		flag = "--socket"
	case s.wait != 0:
		flag = "--wait"
	}
	switch own := len(s.devices) > 0 || s.protocol != "" || cli.FlagGiven(cmd, cli.PcapFlag) || cli.FlagGiven(cmd, cli.KeepReasonsFlag) || cli.FlagGiven(cmd, faultsFlag) || cli.FlagGiven(cmd, cli.MetricsFlag) || cli.TLSFlags(cmd) != nil; {
	case s.wait < 0:
		return nil, cli.UsageErrorf("--wait: expected a positive duration such as 30s, found %v", s.wait)
	case flag != "" && own:
		return nil, cli.UsageErrorf("%s: the daemon opens the devices, so -d, --protocol, --%s, --%s, --%s, --%s and the flags of TLS do not apply", flag, cli.PcapFlag, cli.KeepReasonsFlag, faultsFlag, cli.MetricsFlag)
	case s.socket != "":
		return []string{s.socket}, nil
	case own:
		return nil, nil
	}
	return append(daemon.Sockets(), more...), nil
}

// findDaemon looks for a daemon and completes the environment of its programs, if there is one. With
// --wait it looks until there is one.
func (s *options) findDaemon(cmd *cobra.Command, sockets []string, env *ondemand.Environment) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), s.wait)
	defer cancel()
	for {
		err := s.askDaemons(cmd, sockets, env)
		if env.Socket != "" || s.wait == 0 || err != nil && !daemon.Absent(err) {
			return err
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			if cmd.Context().Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("no daemon listens on %s after %v: start one (softrdma daemon)", strings.Join(sockets, " or "), s.wait)
		}
	}
}

// answerTime is how long a daemon may take to answer. One that takes longer is stopped.
const answerTime = 10 * time.Second

// askDaemons asks each socket once for a daemon that serves this user.
func (s *options) askDaemons(cmd *cobra.Command, sockets []string, env *ondemand.Environment) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
	defer cancel()
	for _, socket := range sockets {
		info, err := daemon.Ask(ctx, socket)
		switch {
		case err == nil:
			if s.verbose {
				for _, d := range info.Devices {
					fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s, of the daemon on %s (process %d)\n", d, socket, info.PID)
				}
			}
			env.Socket, env.Tree = socket, info.Tree
			return nil
		case cmd.Context().Err() != nil:
			return cmd.Context().Err()
		case daemon.Absent(err):
			if s.socket != "" {
				return fmt.Errorf("no daemon listens on %s: start one (softrdma daemon --socket %s): %w", socket, socket, err)
			}
		case s.socket != "" || s.wait != 0:
			return fmt.Errorf("daemon on %s: %w", socket, err)
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: daemon on %s: %v; the program gets a device of its own\n", socket, err)
		}
	}
	return nil
}
