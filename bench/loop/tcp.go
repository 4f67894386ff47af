package loop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A StreamConn is a connection that works as a *net.TCPConn does.
type StreamConn interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

// Sockets opens connections.
type Sockets interface {
	Dial(address string) (StreamConn, error)
	Listen(address string) (net.Listener, error)
}

// A streamEnd is one end of connections of Sockets, separate from the control
// connection.
type streamEnd struct {
	c       *Config
	sockets Sockets
	l       net.Listener // of the server

	conns   []StreamConn // of the client
	writers sync.WaitGroup
}

func newStreamEnd(c *Config, sockets Sockets) (end, error) {
	e := &streamEnd{c: c, sockets: sockets}
	if !c.Server {
		return e, nil
	}
	var err error
	e.l, err = sockets.Listen(netip.AddrPortFrom(c.Local, c.Port+1).String())
	return e, err
}

// tcpSockets opens TCP connections with the configuration's congestion control.
type tcpSockets struct{ c *Config }

// Listen implements Sockets.
func (s tcpSockets) Listen(address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: chooseControl(s.c.Control)}
	return lc.Listen(context.Background(), "tcp", address)
}

// Dial implements Sockets.
func (s tcpSockets) Dial(address string) (StreamConn, error) {
	dialer := net.Dialer{Control: chooseControl(s.c.Control), LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.c.Local, 0))}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (e *streamEnd) dial() (StreamConn, error) {
	return e.sockets.Dial(netip.AddrPortFrom(e.c.Peer, e.c.Port+1).String())
}

func (e *streamEnd) close() {
	if e.l != nil {
		e.l.Close()
	}
	for _, conn := range e.conns {
		conn.Close()
	}
	e.writers.Wait()
}

func (e *streamEnd) ask() (Result, error) {
	if e.c.Kind == Saturate {
		return Result{}, e.saturate()
	}
	conn, err := e.dial()
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	buf := make([]byte, e.c.Bytes)
	until := time.Now().Add(e.c.duration())
	if e.c.Kind == Stream {
		for time.Now().Before(until) {
			if _, err := conn.Write(buf); err != nil {
				return Result{}, err
			}
		}
		if err := conn.CloseWrite(); err != nil {
			return Result{}, err
		}
		_, err = conn.Read(buf) // the server closes when it has read everything
		if !errors.Is(err, io.EOF) {
			return Result{}, err
		}
		return Result{}, nil
	}
	var trips []time.Duration
	for last := time.Now(); last.Before(until) && len(trips) < maxSamples; {
		if _, err := conn.Write(buf); err != nil {
			return Result{}, err
		}
		if err := e.read(conn, buf); err != nil {
			return Result{}, err
		}
		now := time.Now()
		trips = append(trips, now.Sub(last))
		last = now
	}
	return latencyOf(trips), nil
}

func (e *streamEnd) serve() (t received, err error) {
	if e.c.Kind == Saturate {
		return e.receiveAll()
	}
	conn, err := e.l.Accept()
	if err != nil {
		return t, err
	}
	defer conn.Close()
	buf := make([]byte, e.c.Bytes)
	for {
		if err := e.read(conn, buf); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return t, err
		}
		t.Bytes += int64(len(buf))
		if e.c.Kind == Ping {
			if _, err := conn.Write(buf); err != nil {
				return t, err
			}
		}
	}
}

// read fills buf. It polls for a ping unless the configuration has Events.
func (e *streamEnd) read(conn net.Conn, buf []byte) error {
	if e.c.Kind == Stream || e.c.Events {
		_, err := io.ReadFull(conn, buf)
		return err
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	for len(buf) > 0 {
		var n int
		var no error
		if err := raw.Read(func(fd uintptr) bool {
			n, no = readNow(fd, buf)
			return true
		}); err != nil {
			return err
		}
		switch {
		case n > 0:
			buf = buf[n:]
		case no == nil:
			return io.EOF
		case !errors.Is(no, syscall.EAGAIN) && !errors.Is(no, syscall.EINTR):
			return no
		}
	}
	return nil
}
