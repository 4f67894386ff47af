package ninep

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/hugelgupf/p9/p9"

	"softrdma/rdmacm"
	"softrdma/storage/internal/channel"
)

// Config has the limits of a server. 0 means the default.
type Config struct {
	MaxMessage  int           // bytes of a message (msize), 4096 to 1 MiB; 128 KiB, as Linux asks for
	Receives    int           // requests that a client may have in flight, which Linux calls rq; 64
	Clients     int           // connections at a time; 256
	Files       int           // files that a client may hold, each with the directories that it was found by; 65536
	Open        int           // files that a client may have open; 1024
	PeerTimeout time.Duration // how long a client may be silent before its connection fails; 60 s
}

// A Server serves a directory. Set its fields before Serve.
type Server struct {
	Root     *os.Root
	ReadOnly bool
	Config   Config

	// Connected, if set, is called with each client that has connected, and Disconnected with why its
	// connection ended. They may be called from several goroutines.
	Connected    func(client netip.AddrPort)
	Disconnected func(client netip.AddrPort, err error)

	clients, messages atomic.Uint64
	locks             locks
}

// Counts returns how many clients have connected, and how many requests they have sent.
func (s *Server) Counts() (clients, messages uint64) { return s.clients.Load(), s.messages.Load() }

func (c Config) complete() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxMessage, 128<<10)
	def(&c.Receives, 64)
	def(&c.Clients, 256)
	def(&c.Files, 64<<10)
	def(&c.Open, 1024)
	if c.PeerTimeout == 0 {
		c.PeerTimeout = time.Minute
	}
	switch {
	case c.MaxMessage < 4096 || c.MaxMessage > 1<<20:
		return c, fmt.Errorf("largest message: expected 4096 to 1048576 bytes, found %d", c.MaxMessage)
	case c.Receives < 1 || c.Receives > 1024:
		return c, fmt.Errorf("receives: expected 1 to 1024, found %d", c.Receives)
	case c.Clients < 1:
		return c, fmt.Errorf("clients: expected at least 1, found %d", c.Clients)
	case c.Files < 1 || c.Open < 1:
		return c, fmt.Errorf("files: expected at least 1 to hold and 1 open, found %d and %d", c.Files, c.Open)
	}
	return c, nil
}

// ackDelay makes clients wait 37 minutes for an acknowledge. Linux's client asks for no retries, and the timer of Linux's
// Soft RoCE may expire although nothing was lost: rxe does not stop it when a request is acknowledged, and ends the
// connection if any request is in flight when it expires. With the 2 s that Linux takes otherwise, a busy mount ended soon.
const ackDelay = 29

// Serve serves clients until the context ends or the listener is closed.
func (s *Server) Serve(ctx context.Context, l *rdmacm.Listener) error {
	cfg, err := s.Config.complete()
	if err != nil {
		return err
	}
	server := p9.NewServer(attacher{s})
	return channel.Serve(ctx, l, cfg.Clients, func(ctx context.Context, r *rdmacm.Request) { s.client(ctx, r, cfg, server) })
}

// client serves a client until its connection ends.
func (s *Server) client(ctx context.Context, r *rdmacm.Request, cfg Config, server *p9.Server) {
	conn, err := channel.Accept(ctx, r, channel.Config{
		Receives: cfg.Receives, ReceiveSize: cfg.MaxMessage, Sends: cfg.Receives, Memory: max(4<<20, 4*cfg.MaxMessage), PeerTimeout: cfg.PeerTimeout,
	}, rdmacm.ConnParam{AckDelay: ackDelay})
	if err != nil {
		return // the client was told, or is gone
	}
	s.clients.Add(1)
	defer context.AfterFunc(ctx, func() { conn.Fail(context.Cause(ctx)) })()
	if s.Connected != nil {
		s.Connected(conn.RemoteAddr())
	}
	x := newStream(conn, s, cfg)
	_ = server.Handle(x, x) // always nil
	err = errors.Join(conn.Err(), conn.Close())
	if s.Disconnected != nil {
		s.Disconnected(conn.RemoteAddr(), err)
	}
}
