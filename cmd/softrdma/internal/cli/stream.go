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

// A StreamEnd is how commands that use rdmanet find each other: their flags, and
// what they have open for it.
type StreamEnd struct {
	Cmd     *cobra.Command
	Source  string
	Timeout time.Duration
	opened  []func() error

	protocol Protocol
}

func (e *StreamEnd) AddFlags(f *pflag.FlagSet, silence string) {
	f.StringVarP(&e.Source, "source", "I", "", "client: `INTERFACE-OR-ADDRESS` to go out from, or daemon:SOCKET/rxe1 (default by the route)")
	e.protocol.AddFlag(f, "")
	f.DurationVar(&e.Timeout, "timeout", 10*time.Second, silence)
}

// CheckFlags refuses what cannot work; local is the name of a server's device.
func (e *StreamEnd) CheckFlags(local *string) error {
	if e.Timeout <= 0 {
		return UsageErrorf("--timeout: expected a positive duration such as 10s, found %v", e.Timeout)
	}
	if err := e.protocol.Reconcile(&e.Source); err != nil {
		return err
	}
	return e.protocol.Reconcile(local)
}

// streamOptions ask the peer every second whether it is there: an end that only receives
// then notices within three seconds that the other one was killed.
var streamOptions = rdmanet.Options{KeepAlive: time.Second}

// Dial connects to a server; start is the command that should wait there.
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

// captureRoute opens the device by which the server is reached ahead of the
// connection, which will find and share it, and captures its packets.
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

// Listen begins to wait on a device, or without a name on every address; flag
// is what names it.
func (e *StreamEnd) Listen(ctx context.Context, name string, port uint16, flag string) (*rdmanet.Listener, error) {
	dev, err := OpenLocal(ctx, e.Cmd, name, "", e.protocol)
	if err != nil {
		return nil, err
	}
	e.opened = append(e.opened, dev.Close)
	if err := RequireCaptureDevice(e.Cmd, dev, flag); err != nil {
		return nil, err
	}
	lc := rdmanet.ListenConfig{Options: streamOptions, Device: dev.Device, Protocol: e.protocol.Verbs()}
	if dev.Device != nil {
		name = "" // the device has it
	}
	l, err := lc.Listen(ctx, "rdma", net.JoinHostPort(name, strconv.Itoa(int(port))))
	if err != nil {
		return nil, ListenError(err, dev, e.protocol, flag)
	}
	return l.(*rdmanet.Listener), nil
}

// Close gives up what is open, the last first.
func (e *StreamEnd) Close() error {
	var err error
	for i := len(e.opened) - 1; i >= 0; i-- {
		err = errors.Join(err, IgnoreClosed(e.opened[i]()))
	}
	e.opened = nil
	return err
}

// StreamError gives an error of reading or writing a stream the code of a peer
// that is gone; those of files stay as they are.
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

// ListeningAt is the sentence of a server on rdmanet that waits.
func ListeningAt(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return WaitingAt(t.AddrPort())
	}
	return a.String()
}
