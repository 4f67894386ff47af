//go:build !linux

package tcp

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
)

// widen does nothing: the system chooses the buffers.
func widen(*net.TCPConn, *Config) {}

// setCongestion refuses every choice.
func setCongestion(_ syscall.Conn, name string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("TCP congestion control %q: expected none on %s: %w", name, runtime.GOOS, errors.ErrUnsupported)
}
