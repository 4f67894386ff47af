package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/internal/channel"
	"softrdma/storage/rpcrdma/wire"
)

// An Item is a data item of a reply, at an offset that is a multiple of 4.
type Item struct{ Offset, Length int }

// A Service executes calls. Its methods may be called from several goroutines.
type Service interface {
	// Call executes a call and writes the reply to the front of a buffer. It returns its length, and
	// the data items in it that may be placed in write chunks of the client, in order. Call and reply
	// are the service's until it returns. ErrReplySize says that the reply is longer than the
	// buffer. Any other error ends the connection: the call is none that can be answered. ClientOf
	// returns whose call it is.
	Call(ctx context.Context, call, reply []byte) (n int, items []Item, err error)
}

// clientKey is the key of a client's address in a context.
type clientKey struct{}

// ClientOf returns the address and the port of the client whose call has a context, and the zero value
// outside of calls.
func ClientOf(ctx context.Context) netip.AddrPort {
	a, _ := ctx.Value(clientKey{}).(netip.AddrPort)
	return a
}

// WithClient returns the context of a call of a client, for services that are called without a Server.
func WithClient(ctx context.Context, client netip.AddrPort) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// ErrReplySize says that a reply is longer than the client has room for.
var ErrReplySize = errors.New("reply is longer than the client has room for")

// Config has the limits of a server. 0 means the default.
type Config struct {
	Credits     int           // calls that a client may have in flight, 1 to 1024; 64
	Inline      int           // bytes of inline messages: a multiple of 1024 up to wire.MaxInline; 4096
	MaxMessage  int           // bytes of calls and of replies; 1 MiB and 64 KiB
	Memory      int           // bytes of buffers of a client; 64 MiB, at least 4 × MaxMessage
	Clients     int           // connections at a time; 256
	PeerTimeout time.Duration // how long a client may be silent before its connection fails; 60 s
}

// A Server serves RPC over RDMA. Set its fields before Serve.
type Server struct {
	Service Service
	Config  Config

	// Connected, if set, is called with each client that has connected, and Disconnected with why its
	// connection ended. They may be called from several goroutines.
	Connected    func(client netip.AddrPort)
	Disconnected func(client netip.AddrPort, err error)

	counters counters
}

// Counters count what a server has done since its start.
type Counters struct {
	Clients  uint64 // connections
	Calls    uint64 // calls that were executed
	Refused  uint64 // calls that were answered with ERR_VERS or ERR_CHUNK
	Ignored  uint64 // messages that were too short for a header, or obsolete
	BytesIn  uint64 // bytes that were READ from clients
	BytesOut uint64 // bytes that were WRITTEN to clients
}

type counters struct{ clients, calls, refused, ignored, bytesIn, bytesOut atomic.Uint64 }

// Counters returns the counters.
func (s *Server) Counters() Counters {
	c := &s.counters
	return Counters{c.clients.Load(), c.calls.Load(), c.refused.Load(), c.ignored.Load(), c.bytesIn.Load(), c.bytesOut.Load()}
}

// Serve serves clients until the context ends or the listener is closed. It returns after the last
// call.
func (s *Server) Serve(ctx context.Context, l *rdmacm.Listener) error {
	cfg, err := s.Config.complete()
	if err != nil {
		return err
	}
	return channel.Serve(ctx, l, cfg.Clients, func(ctx context.Context, r *rdmacm.Request) { s.client(ctx, r, cfg) })
}

// complete sets defaults and checks the limits.
func (c Config) complete() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Credits, 64)
	def(&c.Inline, wire.DefaultInline)
	def(&c.MaxMessage, 1<<20+64<<10)
	def(&c.Memory, 64<<20)
	def(&c.Clients, 256)
	if c.PeerTimeout == 0 {
		c.PeerTimeout = time.Minute
	}
	switch {
	case c.Credits < 1 || c.Credits > 1024:
		return c, fmt.Errorf("credits: expected 1 to 1024, found %d", c.Credits)
	case c.Inline < 1024 || c.Inline > wire.MaxInline || c.Inline%1024 != 0:
		return c, fmt.Errorf("inline size: expected a multiple of 1024 up to %d, found %d", wire.MaxInline, c.Inline)
	case c.MaxMessage < c.Inline:
		return c, fmt.Errorf("largest message: expected at least the inline size %d, found %d", c.Inline, c.MaxMessage)
	case c.Memory < 4*c.MaxMessage:
		return c, fmt.Errorf("memory: expected at least 4 times the largest message, which is %d, found %d", 4*c.MaxMessage, c.Memory)
	case c.Clients < 1:
		return c, fmt.Errorf("clients: expected at least 1, found %d", c.Clients)
	}
	return c, nil
}

// A client is a connection.
type client struct {
	*channel.Conn
	server *Server
	cfg    Config
	send   int  // bytes of a reply that is sent inline
	invOK  bool // the client accepts SENDs that invalidate its keys
	calls  sync.WaitGroup
	tokens chan struct{} // as many as calls may be executed at a time
}

// client serves a client until its connection ends.
func (s *Server) client(ctx context.Context, r *rdmacm.Request, cfg Config) {
	peer, _ := wire.ParsePrivate(r.PrivateData()) // a client need not have any
	own := wire.Private{Send: cfg.Inline, Receive: cfg.Inline}
	conn, err := channel.Accept(ctx, r, channel.Config{
		Receives: cfg.Credits, ReceiveSize: cfg.Inline, Sends: 2 * (wire.MaxSegments + 1), Memory: cfg.Memory, PeerTimeout: cfg.PeerTimeout,
	}, rdmacm.ConnParam{PrivateData: own.Append(nil)})
	if err != nil {
		return // the client was told, or is gone
	}
	s.counters.clients.Add(1)
	defer context.AfterFunc(ctx, func() { conn.Fail(context.Cause(ctx)) })()
	if s.Connected != nil {
		s.Connected(conn.RemoteAddr())
	}
	c := &client{Conn: conn, server: s, cfg: cfg, send: min(cfg.Inline, peer.Receive), invOK: peer.RemoteInvalidation}
	c.tokens = make(chan struct{}, cfg.Credits)
	err = c.serve(WithClient(ctx, conn.RemoteAddr()))
	c.calls.Wait()
	err = errors.Join(err, conn.Close())
	if s.Disconnected != nil {
		s.Disconnected(conn.RemoteAddr(), err)
	}
}

// serve handles messages, each in a goroutine. A client that sends more than it has credits for waits
// for receives.
func (c *client) serve(ctx context.Context) error {
	for {
		m, err := c.Receive()
		if err != nil {
			return err
		}
		c.tokens <- struct{}{}
		c.calls.Go(func() {
			defer func() { <-c.tokens }()
			if err := c.handle(ctx, m); err != nil {
				c.Fail(err)
			}
		})
	}
}
