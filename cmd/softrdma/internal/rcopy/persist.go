package rcopy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
)

// retryPause is how long a client waits before it connects again. It notices a lost link 10 s
// after the last progress (--timeout), and the server after 15 s: until then the server keeps the
// partial file for the old connection.
const retryPause = 5 * time.Second

// persist calls try until it succeeds. After a connection was lost, it tries again for r.retry,
// which begins again only if the copy advances: a path may let a client connect and still lose all
// data. from is where a try began. The error of the lost connection says more than those of
// connecting again.
func (r *command) persist(ctx context.Context, try func() (connected bool, from int64, err error)) error {
	var lost error
	var until time.Time
	var reached int64
	for again := false; ; {
		connected, from, err := try()
		switch {
		case (errors.Is(err, errDiffers) || errors.Is(err, errNoCheck)) && !again: // the server has given it up
			again, lost = true, err
			reached, until = -1, time.Now().Add(r.retry) // the copy begins again, and so does the time
			fmt.Fprintf(r.Cmd.ErrOrStderr(), "copying the whole file: %s\n", cli.OneLine(err))
			continue
		case err == nil, ctx.Err() != nil, r.retry == 0:
			return err
		case connected && !linkLost(err):
			return err
		case connected:
			if lost == nil || from > reached {
				reached, until = from, time.Now().Add(r.retry)
			}
			if lost = err; time.Now().After(until) {
				return lost
			}
			fmt.Fprintf(r.Cmd.ErrOrStderr(), "connection lost, trying to continue for %v: %s\n", time.Until(until).Round(time.Second), cli.OneLine(err))
		case lost == nil:
			return err
		case absent(err), time.Now().After(until):
			return lost
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// linkLost reports whether the peer does not answer any more. A peer that has ended the connection
// said so, and connecting again would not help.
func linkLost(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Timeout() || errors.Is(err, syscall.ETIMEDOUT)
}

// absent reports whether the server's host says that nothing listens there, or that it does not trust this end.
func absent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, new(*rdmacm.RejectedError))
}
