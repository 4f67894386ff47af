package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/daemon"
	"softrdma/internal/rundir"
	"softrdma/internal/uverbs"
	"softrdma/internal/uverbs/device"
	"softrdma/verbs"
)

// leastMemory is enough for a program with a few queues.
const leastMemory = 1 << 20

// run serves devices until a signal ends it, or there has been no client for --idle.
func run(cmd *cobra.Command, s *options) (err error) {
	allow, err := newAllowedUsers(s.allow)
	if err != nil {
		return err
	}
	if s.memory != 0 && s.memory < leastMemory {
		return cli.UsageErrorf("--client-memory: expected at least %d, found %d", leastMemory, s.memory)
	}
	if s.idle < 0 {
		return cli.UsageErrorf("--idle: expected a positive duration such as 30s, found %v", s.idle)
	}
	cfg := uverbs.Config{Allow: allow.allows, ClientMemory: int64(s.memory)}
	if cfg.Mode, err = s.socketMode(); err != nil {
		return err
	}
	// All users may read the tree, whatever the umask of the daemon's user.
	unix.Umask(0o022)
	if s.onDemand {
		return s.runOnDemand(cmd, cfg)
	}
	if cfg.Socket, err = s.socketPath(); err != nil {
		return err
	}
	cfg.Dir = cfg.Socket + ".d"
	unlock, err := lockSocket(cfg.Socket, cfg.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if s.verbose {
		cfg.Log = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "softrdma:", line) }
	}
	return s.serve(cmd, cfg, func(names []string, devices []*verbs.Device) error {
		for i, d := range devices {
			fmt.Fprintf(cmd.OutOrStdout(), "%s on %v (%s)\n", names[i], d.Addr().Addr(), d.Name())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "serving %v on %s\n", allow, cfg.Socket)
		return notify("READY=1")
	})
}

// serve opens the devices and serves them, after it has called ready with their names.
func (s *options) serve(cmd *cobra.Command, cfg uverbs.Config, ready func(names []string, devices []*verbs.Device) error) (err error) {
	openNames, err := s.protocol.OpenNames(s.devices)
	if err != nil {
		return err
	}
	devices, closeDevices, err := cli.OpenShared(cmd, openNames)
	defer func() { err = withCloseError(err, closeDevices()) }()
	if err != nil {
		return err
	}
	cfg.Devices = devices
	server, err := uverbs.Serve(cfg)
	if err != nil {
		return err
	}
	defer func() { err = withCloseError(err, server.Close()) }()
	defer cli.ExportPrograms(server.Counted)()
	if err := ready(server.Devices(), devices); err != nil {
		return err
	}
	if s.idle == 0 {
		<-cmd.Context().Done()
	} else {
		server.WaitIdle(cmd.Context(), s.idle)
	}
	if s.verbose {
		for i, d := range devices {
			for line := range device.Report(d, false) {
				fmt.Fprintf(cmd.ErrOrStderr(), "softrdma: %s %s\n", server.Devices()[i], line)
			}
		}
	}
	if cmd.Context().Err() != nil {
		return cli.ErrSignalled
	}
	return nil
}

// withCloseError adds an error of closing to the error of a run.
func withCloseError(err, end error) error {
	if errors.Is(err, cli.ErrSignalled) && end != nil {
		return end
	}
	return errors.Join(err, end)
}

// socketMode returns the permissions of the daemon's socket.
func (s *options) socketMode() (fs.FileMode, error) {
	switch {
	case s.mode == "" && len(s.allow) > 0:
		return 0o666, nil
	case s.mode == "":
		return 0o600, nil
	}
	n, err := strconv.ParseUint(s.mode, 8, 9)
	if err != nil {
		return 0, cli.UsageErrorf("--mode: expected octal digits such as 660, found %q", s.mode)
	}
	return fs.FileMode(n), nil
}

// socketPath returns the path of the daemon's socket.
func (s *options) socketPath() (string, error) {
	switch {
	case s.socket != "":
		return filepath.Abs(s.socket)
	case os.Geteuid() == 0:
		return daemon.SystemSocket, os.MkdirAll(filepath.Dir(daemon.SystemSocket), 0o755)
	}
	socket := daemon.UserSocket()
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return "", err
	}
	return socket, daemon.CheckSocket(socket)
}

// notify tells systemd what the daemon does, if systemd has started it (sd_notify(3)).
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	_, err = c.Write([]byte(state))
	return errors.Join(err, c.Close())
}

// lockSocket locks the directory of a socket until leave is called, and removes what a
// killed daemon left in it. If another daemon has the lock it fails.
func lockSocket(socket, dir string) (leave func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = d.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("a daemon already listens on %s: use it, or choose another --socket", socket)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	leave = func() {
		_ = os.Remove(dir) // only if it is empty
		_ = d.Close()
	}
	here, err := d.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(dir); err == nil && !os.SameFile(here, there) {
			err = fmt.Errorf("another daemon has just released %s: try again", socket)
		}
	}
	if err == nil {
		err = removeLeft(socket, dir)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// removeLeft removes what a killed daemon has left.
func removeLeft(socket, dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, "tree")); err != nil {
		return err
	}
	if err := rundir.RemoveDead(socket); err != nil {
		return fmt.Errorf("--socket %s: %w", socket, err)
	}
	return nil
}

// hasCapability reports whether this process has a capability (capabilities(7)).
func hasCapability(n uint) bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && caps>>n&1 != 0
		}
	}
	return false
}
