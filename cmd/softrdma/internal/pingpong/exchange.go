package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
)

// An exchange is the TCP connection over which the two sides tell each other their
// destinations: first the client, then the server. When the client has the server's,
// whose queue pairs are then ready, it sends "done" and a zero byte. Each step must end
// within timeout.
type exchange struct {
	conn    net.Conn
	timeout time.Duration
}

// done is the client's last message.
const done = "done\x00"

// dialExchange connects to the server.
func dialExchange(ctx context.Context, host string, port uint16, timeout time.Duration) (*exchange, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	switch {
	case err == nil:
		return &exchange{conn, timeout}, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, cli.PeerErrorf("nothing listens on %s, TCP port %d: start the pingpong without HOST first", host, port)
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil && !errors.As(err, new(*net.DNSError)) {
		return nil, cli.PeerErrorf("no answer from %s, TCP port %d, over which pingpong exchanges addresses: is the host up, and does the firewall allow the port? (%w)", host, port, err)
	}
	return nil, cli.PeerErrorf("connect to the peer: %w", err)
}

// listenExchange listens on the server's port.
func listenExchange(ctx context.Context, port uint16) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("TCP port %d is in use, perhaps by another pingpong: choose another one with -p at both sides", port)
	}
	return l, err
}

// acceptExchange waits for a client without a time limit, and closes the listener.
func acceptExchange(ctx context.Context, l net.Listener, timeout time.Duration) (*exchange, error) {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.Accept()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the peer: %w", err)
	}
	return &exchange{conn, timeout}, nil
}

// within runs a step until it ends, times out or ctx ends.
func (e *exchange) within(ctx context.Context, what string, step func() error) error {
	e.conn.SetDeadline(time.Now().Add(e.timeout))
	defer context.AfterFunc(ctx, func() { e.conn.SetDeadline(time.Unix(1, 0)) })()
	err := step()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return cli.PeerErrorf("%s: the peer sent nothing for %v: is it a pingpong with the same -t?", what, e.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return cli.PeerErrorf("%s: the peer closed the connection: see its error message", what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// send sends this side's destinations.
func (e *exchange) send(ctx context.Context, local []destination) error {
	var b []byte
	for i := range local {
		b = local[i].append(b)
	}
	return e.within(ctx, "send the local address", func() error {
		_, err := e.conn.Write(b)
		return err
	})
}

// receive receives n destinations.
func (e *exchange) receive(ctx context.Context, n int) ([]destination, error) {
	remote := make([]destination, n)
	err := e.within(ctx, "receive the peer's address", func() error {
		b := make([]byte, destinationLen)
		for i := range remote {
			if _, err := io.ReadFull(e.conn, b); err != nil {
				return err
			}
			var err error
			if remote[i], err = parseDestination(b); err != nil {
				return err
			}
		}
		return nil
	})
	return remote, err
}

// sendDone ends the client's side of the exchange.
func (e *exchange) sendDone(ctx context.Context) error {
	return e.within(ctx, "confirm the peer's address", func() error {
		_, err := io.WriteString(e.conn, done)
		return err
	})
}

// receiveDone ends the server's side of the exchange.
func (e *exchange) receiveDone(ctx context.Context) error {
	return e.within(ctx, "wait for the peer's confirmation", func() error {
		b := make([]byte, len(done))
		if _, err := io.ReadFull(e.conn, b); err != nil {
			return err
		}
		if string(b) != done {
			return fmt.Errorf("expected %q, found %q", done, b)
		}
		return nil
	})
}

func (e *exchange) close() { e.conn.Close() }
