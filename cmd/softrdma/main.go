// Command softrdma lists RDMA devices, and pings, measures, captures and explains RDMA
// traffic on any network adapter.
//
// This package owns the command tree and how the process starts and ends. Each command
// is a package below internal; package verbs and those above it speak the protocols.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/samehost"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the command in order, a later one at once. timeout(1)
	// signals its child and then its process group, so a second signal within a second
	// is ignored.
	context.AfterFunc(ctx, func() {
		time.Sleep(time.Second)
		stop()
	})
	cmd, err := execute(ctx)
	if ctx.Err() != nil && !errors.Is(err, cli.ErrSignalled) {
		if e := cli.WithOutputError(nil); e != nil {
			fmt.Fprintf(os.Stderr, "softrdma: %s\n", cli.OneLine(e))
		}
		fmt.Fprintln(os.Stderr, "softrdma: interrupted")
		exit(cli.ExitInterrupted)
	}
	code := cli.ExitCode(err)
	switch code {
	case cli.ExitOK:
	case cli.ExitUsage:
		fmt.Fprintf(os.Stderr, "softrdma: %s (see: %s --help)\n", cli.OneLine(err), cmd.CommandPath())
	default:
		fmt.Fprintf(os.Stderr, "softrdma: %s\n", cli.Line(err))
	}
	exit(code)
}

// exit ends the process. Devices that a command did not close leave no sockets.
func exit(code int) {
	samehost.RemoveNames()
	os.Exit(code)
}
