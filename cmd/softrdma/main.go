// Command softrdma lists RDMA devices, and pings, measures, captures and explains RDMA
// traffic on any network adapter.
//
// This package owns the command tree and how the process starts and ends. Each command
// is a package below internal; package verbs and those above it speak the protocols.
package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/samehost"
)

func main() {
	if err := checkDescriptors(); err != nil {
		fmt.Fprintf(os.Stderr, "softrdma: %v\n", err)
		os.Exit(cli.ExitCode(err))
	}
	ctx := cli.NotifyContext()
	cmd, err := execute(ctx)
	if s := cli.Signal(ctx); s != nil && !errors.Is(err, cli.ErrSignalled) && !cli.OfProgram(err) {
		if e := cli.WithOutputError(nil); e != nil {
			fmt.Fprintf(os.Stderr, "softrdma: %s\n", cli.OneLine(e))
		}
		if s == syscall.SIGTERM {
			fmt.Fprintln(os.Stderr, "softrdma: terminated")
			exit(cli.ExitTerminated)
		}
		fmt.Fprintln(os.Stderr, "softrdma: interrupted")
		exit(cli.ExitInterrupted)
	}
	switch code := cli.ExitCode(err); {
	case code == cli.ExitOK:
	case code == cli.ExitUsage && !cli.OfProgram(err):
		fmt.Fprintf(os.Stderr, "softrdma: %s (see: %s --help)\n", cli.OneLine(err), cli.Help(err, cmd.CommandPath()))
	default:
		fmt.Fprintf(os.Stderr, "softrdma: %s\n", cli.Line(err))
	}
	exit(cli.ExitCode(err))
}

// exit ends the process. Devices that a command did not close leave no sockets.
func exit(code int) {
	samehost.RemoveNames()
	os.Exit(code)
}
