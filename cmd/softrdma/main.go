// Command softrdma looks at RDMA devices, and pings, measures, captures and
// explains RDMA traffic on any network adapter.
//
// It owns the command line: flags, tables, exit codes. It never speaks a
// protocol of RDMA by itself: that is what package verbs is for.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the command in order, a later one at once: not the
	// same again, which timeout(1) sends to its child and then to its group.
	context.AfterFunc(ctx, func() {
		time.Sleep(time.Second)
		stop()
	})
	cmd, err := execute(ctx)
	if ctx.Err() != nil && !errors.Is(err, errEnded) {
		if e := withOutputs(nil); e != nil {
			fmt.Fprintf(os.Stderr, "softrdma: %s\n", oneLine(e))
		}
		fmt.Fprintln(os.Stderr, "softrdma: interrupted")
		os.Exit(exitInterrupted)
	}
	code := exitCode(err)
	switch code {
	case exitOK:
	case exitUsage:
		fmt.Fprintf(os.Stderr, "softrdma: %s (see: %s --help)\n", oneLine(err), cmd.CommandPath())
	default:
		fmt.Fprintf(os.Stderr, "softrdma: %s\n", oneLine(err))
	}
	os.Exit(code)
}
