package bench

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

// A tcpEnd is one end of TCP connections, separate from the control connection.
type tcpEnd struct {
	c *EndConfig
	l net.Listener // of the server

	conns   []net.Conn // of the client
	writers sync.WaitGroup
}

func newTCPEnd(c *EndConfig) (end, error) {
	e := &tcpEnd{c: c}
	if !c.Server {
		return e, nil
	}
	var err error
	lc := net.ListenConfig{Control: chooseControl(e.c.Control)}
	e.l, err = lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(c.Local, c.Port+1).String())
	return e, err
}

func (e *tcpEnd) dial() (*net.TCPConn, error) {
	dialer := net.Dialer{Control: chooseControl(e.c.Control), LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.c.Local, 0))}
	conn, err := dialer.Dial("tcp", netip.AddrPortFrom(e.c.Peer, e.c.Port+1).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (e *tcpEnd) close() {
	if e.l != nil {
		e.l.Close()
	}
	for _, conn := range e.conns {
		conn.Close()
	}
	e.writers.Wait()
}

func (e *tcpEnd) ask() (Result, error) {
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
		conn.CloseWrite()
		_, err := conn.Read(buf) // the server closes when it has read everything
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

func (e *tcpEnd) serve() (t received, err error) {
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
func (e *tcpEnd) read(conn net.Conn, buf []byte) error {
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
