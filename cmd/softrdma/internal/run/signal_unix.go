//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// notify returns the signals to forward to all ranks. SIGINT and SIGTERM end the command's
// context.
func notify() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	return c, func() {
		signal.Stop(c)
		close(c)
	}
}

// terminate asks a rank to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
