package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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
	"softrdma/internal/uverbs/device"
	"softrdma/internal/uverbs/folder"
	"softrdma/preload"
	"softrdma/preload/library"
)

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 10 * time.Second

// warn says why a program finds no device.
func (s *options) warn(cmd *cobra.Command, path, name string) {
	if why := ignoresPreload(path); why != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s finds no device: %s, so it ignores preloaded libraries\n", name, why)
	}
	if s.verbose && static(path) { // programs that it starts may find one
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s itself finds no device: it is linked statically\n", name)
	}
}

// run runs a program on a daemon's devices, or on a device of its own, until the
// program ends.
func run(cmd *cobra.Command, s *options, args []string) (err error) {
	names, err := s.protocol.OpenNames(s.devices)
	if err != nil {
		return err
	}
	sockets, err := s.daemonSockets(cmd)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return notFound(err, args[0], "/usr/sbin", "/sbin")
	}
	s.warn(cmd, program, args[0])
	contents, err := preload.Library()
	if err != nil {
		return err
	}
	place, err := s.folder(cmd)
	if err != nil {
		return err
	}
	defer place.Close()
	dir := place.Path
	preloaded, err := library.Copy(dir, "preload.so", bytes.NewReader(contents))
	if err != nil {
		return err
	}
	defer preloaded.Close()
	engine, engineEnv, err := s.engineEnvironment(cmd, names, dir)
	if err != nil {
		return err
	}
	if engine != nil {
		defer engine.Close()
	}
	env, err := s.daemonEnvironment(cmd, sockets, preloaded.Path)
	if err != nil {
		return err
	}
	if env == nil {
		var end func() error
		if env, end, err = s.serve(cmd, names, dir, preloaded.Path, engine != nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	c := exec.CommandContext(cmd.Context(), program, args[1:]...)
	c.Args[0] = args[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, cli.ForProgram(cmd.OutOrStdout()), cmd.ErrOrStderr()
	c.Env = slices.Concat(os.Environ(), env, engineEnv)
	if s.share {
		c.Env = append(c.Env, uverbs.ShareMemory)
	}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = killDelay
	return programError(args[0], c.Run())
}

// notFound adds where a program is that is not in the PATH. Distributions have programs of
// administrators, such as those of infiniband-diags, in directories that are not in the PATH of
// other users.
func notFound(err error, name string, dirs ...string) error {
	if !errors.Is(err, exec.ErrNotFound) {
		return err
	}
	for _, dir := range dirs {
		if path, e := exec.LookPath(filepath.Join(dir, name)); e == nil {
			return fmt.Errorf("%w, found %s", err, path)
		}
	}
	return err
}

// folder makes the directory of this exec, and removes those of execs that were killed.
func (s *options) folder(cmd *cobra.Command) (*folder.Folder, error) {
	parent := os.TempDir()
	for _, path := range folder.Clean(parent) {
		if s.verbose {
			fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: removed %s, which an exec that was killed has left\n", path)
		}
	}
	return folder.New(parent)
}

// daemonSockets returns the sockets to look for a daemon at, none if the program gets a
// device of its own.
func (s *options) daemonSockets(cmd *cobra.Command) ([]string, error) {
	switch own := len(s.devices) > 0 || s.protocol != "" || cli.FlagGiven(cmd, cli.PcapFlag) || cli.TLSFlags(cmd) != nil; {
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

// engineEnvironment returns the engine's file, and the environment by which a program finds
// it; neither if the program does not use it.
func (s *options) engineEnvironment(cmd *cobra.Command, names []string, dir string) (*library.File, []string, error) {
	if s.engine == engineDaemon {
		return nil, nil, nil
	}
	why := s.whyNotInProgram(cmd, names)
	switch {
	case why != "" && s.engine == engineProgram:
		return nil, nil, cli.UsageErrorf("--engine %s: %s", s.engine, why)
	case why != "":
		if s.verbose {
			fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: the device is not in the program: %s\n", why)
		}
		return nil, nil, nil
	}
	f, err := s.engineFile(cmd, dir)
	if err != nil {
		return nil, nil, err
	}
	return f, uverbs.EngineEnvironment(f.Path, s.engine == engineProgram, s.verbose), nil
}

// engineFile returns the engine's file: the user's cached copy, or one for this start.
func (s *options) engineFile(cmd *cobra.Command, dir string) (*library.File, error) {
	contents, sum, err := preload.Engine()
	if err != nil {
		return nil, err
	}
	f, err := cachedEngine(sum, contents)
	if err == nil {
		return f, nil
	}
	contents, _, openErr := preload.Engine() // the cache may have read a part
	if openErr != nil {
		return nil, openErr
	}
	f, copyErr := library.Copy(dir, "engine.so", contents)
	if copyErr != nil {
		return nil, errors.Join(err, copyErr)
	}
	if s.verbose {
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: the start is slow, because the engine cannot be cached: %v; it is in %s\n", err, f.Path)
	}
	return f, nil
}

func cachedEngine(sum string, contents fs.File) (*library.File, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache, err := library.OpenCache(filepath.Join(base, "softrdma"))
	if err != nil {
		return nil, err
	}
	return cache.Library("engine", sum, contents)
}

// serve opens devices for the program and serves them. If the program may have the devices in its own
// process, that prints what they have carried.
func (s *options) serve(cmd *cobra.Command, names []string, dir, library string, inProgram bool) (env []string, end func() error, err error) {
	devices, closeDevices, err := cli.OpenShared(cmd, names)
	if err != nil {
		return nil, nil, errors.Join(err, closeDevices())
	}
	cfg := uverbs.Config{Devices: devices, Dir: dir}
	if s.verbose {
		cfg.Log = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "softrdma:", line) }
	}
	server, err := uverbs.Serve(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, closeDevices())
	}
	return server.Environment(library), func() error {
		if s.verbose {
			for i, d := range devices {
				for line := range device.Report(d, inProgram) {
					cfg.Log(server.Devices()[i] + " " + line)
				}
			}
		}
		return errors.Join(server.Close(), closeDevices())
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
