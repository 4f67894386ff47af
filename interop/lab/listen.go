//go:build interop && linux

package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// WaitListen waits until a program in the guest listens on a TCP port.
func (g *Guest) WaitListen(ctx context.Context, port int) error {
	return waitListen(ctx, port, func() (string, error) {
		r, err := g.Run(ctx, "cat", "/proc/net/tcp", "/proc/net/tcp6")
		return r.Stdout, err
	})
}

// WaitRDMAListen waits until a program in the guest listens on a port of the RDMA connection manager, in any port space.
func (g *Guest) WaitRDMAListen(ctx context.Context, port int) error {
	what := fmt.Sprintf(":%d ", port)
	for {
		r, err := g.Run(ctx, "rdma", "resource", "show", "cm_id")
		if err != nil {
			return err
		}
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, "state LISTEN") && strings.Contains(strings.TrimSpace(line)+" ", what) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens on RDMA port %d: %w", port, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// WaitListen waits until a program on the host's end listens on a TCP port.
func (l *Lab) WaitListen(ctx context.Context, port int) error {
	return waitListen(ctx, port, func() (string, error) {
		dir := fmt.Sprintf("/proc/%d/net/", l.network.holder.Process.Pid)
		v4, err := os.ReadFile(dir + "tcp")
		v6, _ := os.ReadFile(dir + "tcp6")
		return string(v4) + string(v6), err
	})
}

func waitListen(ctx context.Context, port int, table func() (string, error)) error {
	for {
		content, err := table()
		if err != nil {
			return err
		}
		if listens(content, port) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens on TCP port %d: %w", port, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// listens reads the kernel's table of sockets: the second field is the local address, the fourth the state.
func listens(table string, port int) bool {
	const listen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], suffix) {
			return true
		}
	}
	return false
}
