package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"softrdma/rdmacm"
	"softrdma/rdmanet"
)

// A StreamEnd holds the flags of a command that uses rdmanet, and the objects that it
// opened for its connections.
type StreamEnd struct {
	Cmd     *cobra.Command
	Source  string
	Timeout time.Duration
	opened  []func() error

	protocol Protocol
}

// AddFlags adds the flags of both ends, but not --timeout, which means different things.
func (e *StreamEnd) AddFlags(f *pflag.FlagSet) {
	SourceFlag(f, &e.Source)
	e.protocol.AddFlag(f, "")
}

// CheckFlags checks the flags. local is the name of a server's device.
func (e *StreamEnd) CheckFlags(local *string) error {
	if err := CheckTimeout(e.Timeout); err != nil {
		return err
	}
	if err := e.protocol.Reconcile(&e.Source); err != nil {
		return err
	}
	return e.protocol.Reconcile(local)
}

// streamOptions probe the peer every second, so that an end that only receives notices
// within three seconds that the other one was killed.
var streamOptions = rdmanet.Options{KeepAlive: time.Second}

// Dial connects to a server. start is the command that should be running there.
func (e *StreamEnd) Dial(ctx context.Context, host string, port uint16, start string) (*rdmanet.Conn, error) {
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	dev, err := OpenLocal(ctx, e.Cmd, e.Source, at, e.protocol)
	if err != nil {
		return nil, err
	}
	e.opened = append(e.opened, dev.Close)
	within, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	if dev.Device == nil && FlagGiven(e.Cmd, PcapFlag) {
		if err := e.captureRoute(within, at); err != nil {
			return nil, ConnectError(ctx, err, at, start, e.protocol, e.Timeout)
		}
	}
	d := rdmanet.Dialer{Options: streamOptions, Device: dev.Device, Protocol: e.protocol.Verbs()}
	conn, err := d.DialContext(within, "rdma", at)
	if err != nil {
		return nil, ConnectError(ctx, err, at, start, e.protocol, e.Timeout)
	}
	return conn.(*rdmanet.Conn), nil
}

// captureRoute opens the device that reaches the server before the connection does,
// which then shares it, and captures its packets.
func (e *StreamEnd) captureRoute(ctx context.Context, at string) error {
	to, err := (&rdmacm.Dialer{Protocol: e.protocol.Verbs()}).Resolve(ctx, at)
	if err != nil {
		return err
	}
	e.opened = append(e.opened, to.Close)
	end, err := CaptureDevice(e.Cmd, to.Device())
	if err != nil {
		return err
	}
	e.opened = append(e.opened, end)
	return nil
}

// Listen listens on a device, or on every address if name is empty. flag is the flag
// that gives the name.
func (e *StreamEnd) Listen(ctx context.Context, name string, port uint16, flag string) (*rdmanet.Listener, error) {
	dev, err := OpenLocal(ctx, e.Cmd, name, "", e.protocol)
	if err != nil {
		return nil, err
	}
	e.opened = append(e.opened, dev.Close)
	if err := RequireDevice(e.Cmd, dev, flag); err != nil {
		return nil, err
	}
	lc := rdmanet.ListenConfig{Options: streamOptions, Device: dev.Device, Protocol: e.protocol.Verbs()}
	if dev.Device != nil {
		name = "" // the device implies it
	}
	l, err := lc.Listen(ctx, "rdma", net.JoinHostPort(name, strconv.Itoa(int(port))))
	if err != nil {
		return nil, ListenError(err, dev, e.protocol, flag)
	}
	return l.(*rdmanet.Listener), nil
}

// Close closes what Dial and Listen opened, in reverse order.
func (e *StreamEnd) Close() error {
	var err error
	for i := len(e.opened) - 1; i >= 0; i-- {
		err = errors.Join(err, IgnoreClosed(e.opened[i]()))
	}
	e.opened = nil
	return err
}

// StreamError returns an error of a stream with the exit code of a lost peer. It
// returns errors of files unchanged.
func StreamError(err error) error {
	var lost *net.OpError
	switch {
	case err == nil, !errors.As(err, &lost):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return PeerErrorf("%v does not answer: %w", lost.Addr, err)
	}
	return PeerErrorf("%w", err)
}

// ListeningAt returns the message of a server that listens on a.
func ListeningAt(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return WaitingAt(t.AddrPort())
	}
	return a.String()
}
