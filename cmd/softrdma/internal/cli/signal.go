package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// secondSignal is how long a second signal is ignored: timeout(1) signals its child and then its
// process group.
const secondSignal = time.Second

// A signalError is the cause of a context that a signal has ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return e.signal.String() }

// NotifyContext returns a context that the first SIGINT or SIGTERM ends. A later one ends the
// process at once.
func NotifyContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(signalError{<-signals})
		time.Sleep(secondSignal)
		signal.Stop(signals)
	}()
	return ctx
}

// Signal returns the signal that has ended a context of NotifyContext, or nil.
func Signal(ctx context.Context) os.Signal {
	var e signalError
	if errors.As(context.Cause(ctx), &e) {
		return e.signal
	}
	return nil
}
