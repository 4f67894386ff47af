package main

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

// A streamEnd is how commands that use rdmanet find each other: their flags, and
// what they have open for it.
type streamEnd struct {
	cmd     *cobra.Command
	source  string
	timeout time.Duration
	opened  []func() error

	protocol protocolFlag
}

func (e *streamEnd) flags(f *pflag.FlagSet, silence string) {
	f.StringVarP(&e.source, "source", "I", "", "client: `INTERFACE-OR-ADDRESS` to go out from, or daemon:SOCKET/rxe1 (default by the route)")
	e.protocol.flag(f, "")
	f.DurationVar(&e.timeout, "timeout", 10*time.Second, silence)
}

// checkFlags refuses what cannot work; local is the name of a server's device.
func (e *streamEnd) checkFlags(local *string) error {
	if e.timeout <= 0 {
		return usageErrorf("--timeout: expected a positive duration such as 10s, found %v", e.timeout)
	}
	if err := e.protocol.join(&e.source); err != nil {
		return err
	}
	return e.protocol.join(local)
}

// streamOptions ask the peer every second whether it is there: an end that only receives
// then notices within three seconds that the other one was killed.
var streamOptions = rdmanet.Options{KeepAlive: time.Second}

// dial connects to a server; start is the command that should wait there.
func (e *streamEnd) dial(ctx context.Context, host string, port uint16, start string) (*rdmanet.Conn, error) {
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	dev, err := localDevice(ctx, e.cmd, e.source, at, e.protocol)
	if err != nil {
		return nil, err
	}
	e.opened = append(e.opened, dev.close)
	within, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	if dev.Device == nil && flagGiven(e.cmd, pcapFlag) {
		if err := e.capture(within, at); err != nil {
			return nil, connectError(ctx, err, at, start, e.protocol, e.timeout)
		}
	}
	d := rdmanet.Dialer{Options: streamOptions, Device: dev.Device, Protocol: e.protocol.protocol()}
	conn, err := d.DialContext(within, "rdma", at)
	if err != nil {
		return nil, connectError(ctx, err, at, start, e.protocol, e.timeout)
	}
	return conn.(*rdmanet.Conn), nil
}

// capture opens the device by which the server is reached ahead of the
// connection, which will find and share it, and captures its packets.
func (e *streamEnd) capture(ctx context.Context, at string) error {
	to, err := (&rdmacm.Dialer{Protocol: e.protocol.protocol()}).Resolve(ctx, at)
	if err != nil {
		return err
	}
	e.opened = append(e.opened, to.Close)
	end, err := captureDevice(e.cmd, to.Device())
	if err != nil {
		return err
	}
	e.opened = append(e.opened, end)
	return nil
}

// listen begins to wait on a device, or without a name on every address; flag
// is what names it.
func (e *streamEnd) listen(ctx context.Context, name string, port uint16, flag string) (*rdmanet.Listener, error) {
	dev, err := localDevice(ctx, e.cmd, name, "", e.protocol)
	if err != nil {
		return nil, err
	}
	e.opened = append(e.opened, dev.close)
	if err := capturesOne(e.cmd, dev, flag); err != nil {
		return nil, err
	}
	lc := rdmanet.ListenConfig{Options: streamOptions, Device: dev.Device, Protocol: e.protocol.protocol()}
	if dev.Device != nil {
		name = "" // the device has it
	}
	l, err := lc.Listen(ctx, "rdma", net.JoinHostPort(name, strconv.Itoa(int(port))))
	if err != nil {
		return nil, listenError(err, dev, e.protocol, flag)
	}
	return l.(*rdmanet.Listener), nil
}

// close gives up what is open, the last first.
func (e *streamEnd) close() error {
	var err error
	for i := len(e.opened) - 1; i >= 0; i-- {
		err = errors.Join(err, unlessGone(e.opened[i]()))
	}
	e.opened = nil
	return err
}

// streamError gives an error of reading or writing a stream the code of a peer
// that is gone; those of files stay as they are.
func streamError(err error) error {
	var lost *net.OpError
	switch {
	case err == nil, !errors.As(err, &lost):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return peerErrorf("%v does not answer: %w", lost.Addr, err)
	}
	return peerErrorf("%w", err)
}

// listening is the sentence of a server on rdmanet that waits.
func listening(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return waitingAt(t.AddrPort())
	}
	return a.String()
}
