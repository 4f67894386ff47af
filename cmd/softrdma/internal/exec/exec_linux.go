package exec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/provider/daemon"
	"softrdma/internal/uverbs"
	"softrdma/preload"
	"softrdma/verbs"
)

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 10 * time.Second

// run runs a program on a daemon's devices, or on a device of its own, until the
// program ends.
func run(cmd *cobra.Command, s *options, args []string) (err error) {
	device, err := s.protocol.OpenName(s.device)
	if err != nil {
		return err
	}
	sockets, err := s.daemonSockets(cmd)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	library, err := preload.Library()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "softrdma-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "preload.so")
	if err := os.WriteFile(path, library, 0o755); err != nil {
		return err
	}
	engineEnv, err := s.engineEnvironment(cmd, device, dir)
	if err != nil {
		return err
	}
	env, err := s.daemonEnvironment(cmd, sockets, path)
	if err != nil {
		return err
	}
	if env == nil {
		var end func() error
		if env, end, err = s.serve(cmd, device, dir, path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	c := exec.CommandContext(cmd.Context(), program, args[1:]...)
	c.Args[0] = args[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.Env = slices.Concat(os.Environ(), env, engineEnv)
	if s.share {
		c.Env = append(c.Env, uverbs.ShareMemory)
	}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = killDelay
	return programError(args[0], c.Run())
}

// daemonSockets returns the sockets to look for a daemon at, none if the program gets a
// device of its own.
func (s *options) daemonSockets(cmd *cobra.Command) ([]string, error) {
	switch own := s.device != "" || s.protocol != "" || cli.FlagGiven(cmd, cli.PcapFlag) || cli.TLSFlags(cmd) != nil; {
	case s.socket != "" && own:
		return nil, cli.UsageErrorf("--socket: the daemon opens the devices, so -d, --protocol, --%s and the flags of TLS do not apply", cli.PcapFlag)
	case s.socket != "":
		return []string{s.socket}, nil
	case own:
		return nil, nil
	}
	return daemon.Sockets(), nil
}

// daemonEnvironment looks for a daemon and returns the environment for its programs, or
// nil if there is none.
func (s *options) daemonEnvironment(cmd *cobra.Command, sockets []string, library string) ([]string, error) {
	for _, socket := range sockets {
		info, err := daemon.Ask(socket)
		switch {
		case err == nil:
			if s.verbose {
				for _, d := range info.Devices {
					fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s, of the daemon on %s (process %d)\n", d, socket, info.PID)
				}
			}
			return uverbs.Environment(library, socket, info.Tree), nil
		case daemon.Absent(err):
			if s.socket != "" {
				return nil, fmt.Errorf("no daemon listens on %s: start one (softrdma daemon --socket %s): %w", socket, socket, err)
			}
		case s.socket != "":
			return nil, fmt.Errorf("daemon on %s: %w", socket, err)
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: daemon on %s: %v; the program gets a device of its own\n", socket, err)
		}
	}
	return nil, nil
}

// engineEnvironment writes the engine to the directory, and returns the environment by
// which a program finds it; nil if the program does not use it.
func (s *options) engineEnvironment(cmd *cobra.Command, device, dir string) ([]string, error) {
	if s.engine == engineDaemon {
		return nil, nil
	}
	why := s.whyNotInProgram(cmd, device)
	switch {
	case why != "" && s.engine == engineProgram:
		return nil, cli.UsageErrorf("--engine %s: %s", s.engine, why)
	case why != "":
		if s.verbose {
			fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: the device is not in the program: %s\n", why)
		}
		return nil, nil
	}
	library, err := preload.Engine()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "engine.so")
	if err := os.WriteFile(path, library, 0o755); err != nil {
		return nil, err
	}
	return uverbs.EngineEnvironment(path, s.engine == engineProgram, s.verbose), nil
}

// serve opens a device for the program and serves it.
func (s *options) serve(cmd *cobra.Command, device, dir, library string) (env []string, end func() error, err error) {
	dev, err := cli.OpenDevice(cmd, device, verbs.Config{Shared: cli.Sharable(device)})
	if err != nil {
		return nil, nil, err
	}
	cfg := uverbs.Config{Devices: []*verbs.Device{dev.Device}, Dir: dir}
	if s.verbose {
		cfg.Log = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "softrdma:", line) }
	}
	server, err := uverbs.Serve(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, dev.Close())
	}
	return server.Environment(library), func() error {
		if s.verbose {
			for name, n := range dev.Counters() {
				fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s %d\n", name, n)
			}
		}
		return errors.Join(server.Close(), dev.Close())
	}, nil
}

// programError returns an error with the exit code that softrdma takes over from the
// program.
func programError(name string, err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return err
	}
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return cli.WithCode(128+int(s.Signal()), fmt.Errorf("%s: %v", name, s.Signal()))
	}
	return cli.WithCode(e.ExitCode(), fmt.Errorf("%s: %w", name, err))
}
