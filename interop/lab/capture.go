//go:build interop && linux

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Capture is a running capture of the lab's bridge.
type Capture struct {
	cmd  *exec.Cmd
	said *LockedBuffer
}

// Capture writes the frames of the RoCE bridge that match a capture filter into a pcapng file, until Stop.
func (l *Lab) Capture(ctx context.Context, path, filter string) (*Capture, error) {
	return l.captureOn(ctx, bridge, path, filter)
}

// CaptureIWARP is Capture on the iWARP bridge.
func (l *Lab) CaptureIWARP(ctx context.Context, path, filter string) (*Capture, error) {
	return l.captureOn(ctx, iwarpBridge, path, filter)
}

func (l *Lab) captureOn(ctx context.Context, bridge, path, filter string) (*Capture, error) {
	c := &Capture{said: &LockedBuffer{}}
	c.cmd = l.Host(ctx, "dumpcap", "-q", "-i", bridge, "-B", "16", "-f", filter, "-w", path)
	c.cmd.Stderr = c.said
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	// It names its file once it captures.
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(c.said.String(), "File:"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Stop()
			return nil, fmt.Errorf("dumpcap does not capture: it said %q", c.said.String())
		}
	}
	return c, nil
}

// Stop ends the capture after the frames under way.
func (c *Capture) Stop() error {
	time.Sleep(300 * time.Millisecond)
	c.cmd.Process.Signal(syscall.SIGINT)
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("dumpcap: %w: %s", err, c.said.String())
	}
	return nil
}

// LockedBuffer is a buffer that one goroutine may read while another writes.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
