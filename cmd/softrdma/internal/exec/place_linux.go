package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/ondemand"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/folder"
	"softrdma/preload"
	"softrdma/preload/library"
	"softrdma/verbs"
)

// places returns the directories in which exec may make its own, the first choice first. Containers
// have /dev/shm where their root is read-only. Those in memory do not come first, though a program starts
// faster there: systemd removes their contents when the user logs out, and programs may still run.
func places() (dirs []string) {
	for _, dir := range []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		if dir != "" && loadable(dir) == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// folder makes the directory of this exec, and removes those of execs that were killed. Programs of a
// daemon can do without: the directory is empty then, and the error says why.
func (s *options) folder(cmd *cobra.Command) (dir string, end func() error, err error) {
	dirs := places()
	for _, parent := range dirs {
		for _, path := range folder.Clean(parent) {
			if s.verbose {
				fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: removed %s, which an exec that was killed has left\n", path)
			}
		}
		f, e := folder.New(parent)
		if e == nil {
			return f.Path, f.Close, nil
		}
		if err == nil {
			err = e
		}
	}
	return "", func() error { return nil }, fmt.Errorf("a device needs a directory for its socket and sysfs files: expected to write to one of %s, found %w: "+
		"mount a volume there (Kubernetes: emptyDir at /tmp), set TMPDIR, or use a daemon's devices", strings.Join(dirs, ", "), err)
}

// addEngine completes an environment by the engine's file, which a function returns, unless the program
// does not use it. The cache keeps the file until done is called.
func (s *options) addEngine(cmd *cobra.Command, env *ondemand.Environment, file func() (*library.File, error)) (done func(), err error) {
	if s.engine == engineDaemon {
		return func() {}, nil
	}
	why := whyNotInProgram(cmd)
	switch {
	case why == "":
		f, err := file()
		if err != nil {
			return nil, err
		}
		env.Engine = f.Path
		return func() { _ = f.Close() }, nil // it was only read
	case s.engine == engineProgram:
		return nil, cli.UsageErrorf("--engine %s: %s", s.engine, why)
	case s.verbose:
		fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: the device is not in the program: %s\n", why)
	}
	return func() {}, nil
}

// mayBeInProgram refuses devices that encrypt RoCE v2 if the program is to have its devices in its own process: the server
// keeps the keys.
func (s *options) mayBeInProgram(cmd *cobra.Command, devices []*verbs.Device) error {
	if s.engine != engineProgram || cli.TLSFlags(cmd) == nil {
		return nil
	}
	for _, d := range devices {
		if d.Protocol() == verbs.RoCE {
			return reason.NotSupported("--engine %s: %s encrypts RoCE v2, so it stays with exec, which keeps the keys: expected --engine %s or %s",
				s.engine, cli.DeviceName(d), engineAuto, engineDaemon)
		}
	}
	return nil
}

// engineFile returns the engine's file: the user's cached copy, or one for this start.
func (s *options) engineFile(cmd *cobra.Command, dir string) (*library.File, error) {
	contents, sum, err := preload.Engine()
	if err != nil {
		return nil, err
	}
	f, err := cached("engine", sum, contents)
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

// cached returns the user's cached copy of a library.
func cached(name, sum string, contents fs.File) (*library.File, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache, err := library.OpenCache(filepath.Join(base, "softrdma"))
	if err != nil {
		return nil, err
	}
	return cache.Library(name, sum, contents)
}
