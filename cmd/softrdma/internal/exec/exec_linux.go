package exec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/ondemand"
	"softrdma/internal/uverbs"
	"softrdma/internal/uverbs/device"
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
	if why := unfit(path); s.verbose && why != "" { // programs that it starts may find one
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s itself finds no device: %s\n", name, why)
	}
}

// run runs a program on a daemon's devices, or on a device of its own, until the
// program ends.
func run(cmd *cobra.Command, s *options, args []string) (err error) {
	names, err := s.protocol.OpenNames(s.devices)
	if err != nil {
		return err
	}
	sockets, err := s.daemonSockets(cmd, ondemand.Sockets()...)
	if err != nil {
		return err
	}
	program, err := lookPath(args[0], administrators...)
	if err != nil {
		return err
	}
	s.warn(cmd, program, args[0])
	contents, err := preload.Library()
	if err != nil {
		return err
	}
	dir, end, noPlace := s.folder(cmd)
	defer func() { err = errors.Join(err, end()) }()
	preloaded, err := library.Copy(dir, "preload.so", bytes.NewReader(contents))
	if err != nil {
		return err
	}
	defer preloaded.Close()
	env, err := s.environment(cmd, preloaded)
	if err != nil {
		return err
	}
	if err := s.sanitize.prepare(env, s.engine, dir); err != nil {
		return err
	}
	done, err := s.addEngine(cmd, env, func() (*library.File, error) { return s.engineFile(cmd, dir) })
	if err != nil {
		return err
	}
	defer done()
	if err := s.findDaemon(cmd, sockets, env); err != nil {
		return err
	}
	if env.Socket == "" {
		if noPlace != nil {
			return noPlace
		}
		end, err := s.serve(cmd, names, dir, env)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	c := exec.CommandContext(cmd.Context(), program, args[1:]...)
	c.Args[0] = args[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, cli.ForProgram(cmd.OutOrStdout()), cmd.ErrOrStderr()
	c.Env = append(os.Environ(), env.Variables()...)
	c.Cancel = func() error { return cancel(cmd.Context(), c.Process) }
	c.WaitDelay = killDelay
	found := findingsSize(env)
	return s.sanitize.judge(env, found, programError(cmd.Context(), args[0], c.Run()))
}

// environment returns the environment of programs with a preloaded library.
func (s *options) environment(cmd *cobra.Command, preloaded *library.File) (*ondemand.Environment, error) {
	env := &ondemand.Environment{Library: preloaded.Path, Required: s.engine == engineProgram, Verbose: s.verbose}
	if s.records != "" {
		var err error
		if env.Records, err = filepath.Abs(s.records); err != nil { // programs have other directories
			return nil, err
		}
		if err := os.MkdirAll(env.Records, 0o777); err != nil {
			return nil, fmt.Errorf("--records: %w", err)
		}
	}
	if path := cli.FlagText(cmd, faultsFlag); path != "" { // the server reads it later
		if _, err := cli.ReadFaults(path); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// serve opens devices for the program and serves them, and completes its environment. If the program may
// have the devices in its own process, end prints what they have carried.
func (s *options) serve(cmd *cobra.Command, names []string, dir string, env *ondemand.Environment) (end func() error, err error) {
	devices, closeDevices, err := cli.OpenShared(cmd, names)
	if err != nil {
		return nil, errors.Join(err, closeDevices())
	}
	if env.Records != "" {
		for _, d := range devices {
			if err := d.KeepRecords(env.Records); err != nil {
				return nil, errors.Join(err, closeDevices())
			}
		}
	}
	if err := s.mayBeInProgram(cmd, devices); err != nil {
		return nil, errors.Join(err, closeDevices())
	}
	cfg := uverbs.Config{Devices: devices, Dir: dir, Behind: true}
	if s.verbose {
		cfg.Log = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "softrdma:", line) }
	}
	server, err := uverbs.Serve(cfg)
	if err != nil {
		return nil, errors.Join(err, closeDevices())
	}
	endExport := cli.ExportPrograms(server.Counted)
	env.Socket, env.Tree = server.Socket(), server.Tree()
	return func() error {
		endExport()
		if s.verbose {
			for i, d := range devices {
				for line := range device.Report(d, env.Engine != "") {
					cfg.Log(server.Devices()[i] + " " + line)
				}
			}
		}
		return errors.Join(server.Close(), closeDevices())
	}, nil
}
