//go:build interop && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// The addresses of a pair's two ends, on one machine or on two hosts.
var (
	loopback = [2]string{"127.0.0.1", "127.0.0.2"}
	hosts    = [2]string{"10.78.0.1", "10.78.0.2"}
)

// otherHost is the second host's name, by which MPI tells hosts apart.
const otherHost = "softrdma-other"

// rocePort is the UDP port of RoCE v2.
const rocePort = 4791

// namespaceEnv marks a process that runs in its own network namespace.
const namespaceEnv = "SOFTRDMA_PROGRAMS_NAMESPACE"

func inside() bool { return os.Getenv(namespaceEnv) != "" }

// enter runs this program again in a new network namespace and returns its exit status. If the user
// is not root, it creates a user namespace as well.
func enter() int {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), namespaceEnv+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Geteuid(); uid != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	err := c.Run()
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return max(e.ExitCode(), 1)
	}
	fmt.Fprintln(os.Stderr, "programs: a network namespace:", err)
	return 1
}

// A network is two hosts: this process's namespace, with loopback and one end of a cable, and a
// second namespace at the cable's other end. The holder process keeps the second namespace alive.
// Both disappear with this process.
type network struct {
	holder *exec.Cmd
	keep   io.Closer
}

func newNetwork(ctx context.Context) (*network, error) {
	n := &network{holder: exec.Command("cat")}
	var err error
	if n.keep, err = n.holder.StdinPipe(); err != nil {
		return nil, err
	}
	n.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL}
	if err := n.holder.Start(); err != nil {
		return nil, err
	}
	other := fmt.Sprint(n.holder.Process.Pid)
	for _, argv := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1", "netns", other},
		{"ip", "addr", "add", hosts[0] + "/24", "dev", "cable0"},
		{"ip", "link", "set", "cable0", "up"},
		n.at(1, "hostname", otherHost),
		n.at(1, "ip", "link", "set", "lo", "up"),
		n.at(1, "ip", "addr", "add", hosts[1]+"/24", "dev", "cable1"),
		n.at(1, "ip", "link", "set", "cable1", "up"),
	} {
		if b, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			n.close()
			return nil, fmt.Errorf("%v: %w: %s", argv, err, b)
		}
	}
	return n, nil
}

// idle waits until no program has the UDP port of RoCE on either host. A rank that its launcher has
// killed may live on for a moment.
func (n *network) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, pid := range []string{"self", fmt.Sprint(n.holder.Process.Pid)} {
		for _, file := range []string{"udp", "udp6"} {
			name := fmt.Sprintf("/proc/%s/net/%s", pid, file)
			for {
				b, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				if !bytes.Contains(b, fmt.Appendf(nil, ":%04X ", rocePort)) {
					break
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("UDP port %d is still in use: %s", rocePort, name)
				case <-time.After(again):
				}
			}
		}
	}
	return nil
}

// at returns the command line that runs argv on a host.
func (n *network) at(host int, argv ...string) []string {
	if host == 0 {
		return argv
	}
	ns := fmt.Sprintf("/proc/%d/ns/", n.holder.Process.Pid)
	return append([]string{"nsenter", "--net=" + ns + "net", "--uts=" + ns + "uts", "--"}, argv...)
}

func (n *network) close() {
	_ = n.keep.Close()
	_ = n.holder.Wait()
}
