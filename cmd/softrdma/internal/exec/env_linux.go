package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/host"
	"softrdma/internal/ondemand"
	"softrdma/preload"
	"softrdma/preload/library"
)

// keepLibraries is how long the libraries stay in the cache after env, also if other versions of softrdma
// run then.
const keepLibraries = 30 * 24 * time.Hour

// printEnvironment prints the environment of programs that start their server themselves, or use a
// daemon's.
func printEnvironment(cmd *cobra.Command, s *options, form format) error {
	names, err := s.protocol.OpenNames(s.devices)
	if err != nil {
		return err
	}
	sockets, err := s.daemonSockets(cmd) // a server on demand ends before the environment does
	if err != nil {
		return err
	}
	preloaded, err := kept("preload", preload.LibraryFile)
	if err != nil {
		return err
	}
	defer preloaded.Close()
	env, err := s.environment(cmd, preloaded)
	if err != nil {
		return err
	}
	if err := s.sanitize.prepare(env, s.engine, ""); err != nil {
		return err
	}
	done, err := s.addEngine(cmd, env, func() (*library.File, error) { return kept("engine", preload.Engine) })
	if err != nil {
		return err
	}
	defer done()
	if err := s.findDaemon(cmd, sockets, env); err != nil {
		return err
	}
	if env.Socket == "" {
		if env.Start, err = s.startCommand(cmd, names); err != nil {
			return err
		}
	}
	return form.print(cmd.OutOrStdout(), env.Variables())
}

// kept returns the user's cached copy of a library, which programs load after this command has ended.
func kept(name string, contents func() (fs.File, string, error)) (*library.File, error) {
	file, sum, err := contents()
	if err != nil {
		return nil, err
	}
	f, err := cached(name, sum, file)
	if err == nil {
		if err = errors.Join(loadable(f.Path), f.Keep(keepLibraries)); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("programs need the libraries of softrdma in the user's cache ($XDG_CACHE_HOME or $HOME/.cache): %w", err)
	}
	return f, nil
}

// loadable returns an error if LD_PRELOAD cannot name a file.
func loadable(path string) error {
	if strings.ContainsAny(path, " :\n") {
		return fmt.Errorf("expected a path without spaces, colons and line breaks, found %q: set XDG_CACHE_HOME", path)
	}
	return nil
}

// startCommand returns the command by which programs start their server, for these devices and flags. Two
// commands for one device are the same, so that they share a server.
func (s *options) startCommand(cmd *cobra.Command, names []string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := slices.Clone(ondemand.Words)
	for _, name := range names {
		if name, err = canonical(name); err != nil {
			return nil, err
		}
		if name != "" {
			args = append(args, "--device="+name)
		}
	}
	given, err := cli.DeviceArguments(cmd)
	if err != nil {
		return nil, err
	}
	args = append(args, given...)
	if s.verbose {
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: the first program that uses RDMA starts: %s %s\n", program, strings.Join(args, " "))
	}
	return ondemand.Command(program, args...)
}

// canonical returns the name of a device that all names of the device have in common, or an error if there
// is no such device. It is empty for the best routable address, which the server chooses where it starts.
func canonical(name string) (string, error) {
	prefix, at := cli.SplitProtocol(name)
	var c host.Choice
	var err error
	switch {
	case cli.OnFabric(name):
		return name, nil // of a fabric that may start later
	case at == "":
		_, err = host.DefaultDevice()
		return name, err
	case prefix == cli.RoCEv1Prefix:
		c, err = host.ResolveEthernet(at)
	default:
		c, err = host.Resolve(at)
	}
	if err != nil {
		return "", fmt.Errorf("open RDMA device %q: %w", name, err)
	}
	if prefix == cli.RoCEv1Prefix {
		return name, nil // an interface
	}
	if c.Addr.Port() == host.Port {
		return prefix + c.Addr.Addr().String(), nil
	}
	return prefix + c.Addr.String(), nil
}
