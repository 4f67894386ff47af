package honest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"softrdma/rdmanet"
	"softrdma/verbs"
)

// A Server is an echo server on its own device.
type Server struct {
	Dev    *verbs.Device
	Client *verbs.Device // used by Dial
	Addr   netip.AddrPort

	listener net.Listener
	tls      *tls.Config
	seed     uint64
}

// Same as the client's device means the server's device.
const Same = "the server's"

// A ServerConfig configures a Server. The zero value is suitable for most tests.
type ServerConfig struct {
	Server, Client string // names for Open
	Device         verbs.Config
	Backlog        int
}

// NewServer listens on any port until the end of the test.
func NewServer(t testing.TB, c ServerConfig) *Server {
	t.Helper()
	c.Device.NoLoopback = true
	s := &Server{Dev: Open(t, c.Server, c.Device), tls: c.Device.TLS}
	if s.Client = s.Dev; c.Client != Same {
		s.Client = Open(t, c.Client, c.Device)
	}
	lc := rdmanet.ListenConfig{Device: s.Dev, Protocol: s.Dev.Protocol(), TLS: s.tls, Backlog: c.Backlog}
	l, err := lc.Listen(context.Background(), "rdma", netip.AddrPortFrom(s.Dev.Addr().Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	s.listener, s.Addr = l, l.Addr().(*net.TCPAddr).AddrPort()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return s
}

func (s *Server) serve() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // the client detects missing data
		}()
	}
}

// Dial connects to the server. The connection is closed at the end of the test.
func (s *Server) Dial(t testing.TB) net.Conn {
	t.Helper()
	d := rdmanet.Dialer{Device: s.Client, Protocol: s.Client.Protocol(), TLS: s.tls, RemoteUDPPort: s.Dev.Addr().Port(), Timeout: timeLimit}
	c, err := d.Dial("rdma", s.Addr.String())
	if err != nil {
		t.Fatalf("dial: %v, refused by the server: %v", err, Refusals(s.Dev))
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Echo sends n bytes on a connection and checks that they come back.
func (s *Server) Echo(t testing.TB, c net.Conn, n int) {
	t.Helper()
	s.seed++
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.seed)
	want, got := make([]byte, n), make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(want) // never fails
	if err := c.SetDeadline(time.Now().Add(timeLimit)); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(want)
		written <- err
	}()
	_, err := io.ReadFull(c, got)
	if err := errors.Join(err, <-written); err != nil {
		t.Fatalf("echo of %d bytes: %v", n, err)
	}
	if !bytes.Equal(want, got) {
		t.Fatalf("echo of %d bytes: other bytes came back", n)
	}
}

// Round connects, sends n bytes there and back, and closes.
func (s *Server) Round(t testing.TB, n int) {
	t.Helper()
	c := s.Dial(t)
	s.Echo(t, c, n)
	if err := c.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}
