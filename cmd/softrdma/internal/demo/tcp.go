package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
)

// The kernel's TCP for comparison: writes of 1 MiB, read directly to their place. It
// uses cubic where the system lets a program choose, since BBR throttles a single
// stream on the loopback.

// listen opens a socket for the client's next connection.
func (s *server) listen(ctx context.Context) (string, error) {
	lc := net.ListenConfig{Control: chooseCubic}
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.dev.Addr().Addr().String(), "0"))
	if err != nil {
		return "", err
	}
	l.(*net.TCPListener).SetDeadline(time.Now().Add(acceptLimit))
	s.listener = l
	return l.Addr().String(), nil
}

// accept accepts the client's connection, which ends with ctx.
func (s *server) accept(ctx context.Context) (net.Conn, func(), error) {
	defer s.listener.Close()
	conn, err := s.listener.Accept()
	if err != nil {
		return nil, nil, cli.PeerErrorf("TCP: %w", err)
	}
	return conn, closeWith(ctx, conn), nil
}

// closeWith closes the connection when ctx ends or the returned function is called.
func closeWith(ctx context.Context, conn net.Conn) func() {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return func() {
		stop()
		conn.Close()
	}
}

// dial connects to the server from the address of this process's device, so that TCP's
// packets take the same path as those of RDMA.
func (d *client) dial(ctx context.Context, ready *measure.Message) (net.Conn, func(), error) {
	from := d.dev.Addr().Addr()
	dialer := net.Dialer{Timeout: acceptLimit, Control: chooseCubic, LocalAddr: &net.TCPAddr{IP: from.AsSlice(), Zone: from.Zone()}}
	conn, err := dialer.DialContext(ctx, "tcp", ready.Address)
	if err != nil {
		return nil, nil, cli.PeerErrorf("TCP: %w", err)
	}
	return conn, closeWith(ctx, conn), nil
}

// tcp writes the file and waits until the server has read all of it.
func (d *client) tcp(ctx context.Context, ready *measure.Message) error {
	conn, done, err := d.dial(ctx, ready)
	if err != nil {
		return err
	}
	defer done()
	data := d.data()
	for at := 0; at < len(data); at += chunkSize {
		if _, err := conn.Write(data[at:min(at+chunkSize, len(data))]); err != nil {
			return fmt.Errorf("TCP: %w", err)
		}
		d.bar.set(int64(at + chunkSize))
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return fmt.Errorf("TCP: %w", err)
	}
	return nil
}

// tcp reads the file to its place.
func (s *server) tcp(ctx context.Context, _ *measure.Message) error {
	conn, done, err := s.accept(ctx)
	if err != nil {
		return err
	}
	defer done()
	data := s.data()
	for at := 0; at < len(data); at += chunkSize {
		if _, err := io.ReadFull(conn, data[at:min(at+chunkSize, len(data))]); err != nil {
			return fmt.Errorf("TCP: %w", err)
		}
	}
	_, err = conn.Write([]byte{1})
	return err
}

// tcpPing times round trips of 8 bytes. Both ends poll, as in the RDMA tests.
func (d *client) tcpPing(ctx context.Context, ready *measure.Message, n int64, h measure.Histogram) error {
	conn, done, err := d.dial(ctx, ready)
	if err != nil {
		return err
	}
	defer done()
	var b [8]byte
	last := time.Now()
	for range n {
		if _, err = conn.Write(b[:]); err == nil {
			err = pollRead(conn, b[:])
		}
		if err != nil {
			return fmt.Errorf("TCP: %w", err)
		}
		now := time.Now()
		h.RecordValue(int64(now.Sub(last)))
		last = now
	}
	return nil
}

// tcpPong is the server's end of tcpPing.
func (s *server) tcpPong(ctx context.Context, n int64) error {
	conn, done, err := s.accept(ctx)
	if err != nil {
		return err
	}
	defer done()
	var b [8]byte
	for range n {
		if err = pollRead(conn, b[:]); err == nil {
			_, err = conn.Write(b[:])
		}
		if err != nil {
			return fmt.Errorf("TCP: %w", err)
		}
	}
	return nil
}
