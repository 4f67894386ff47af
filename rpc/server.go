package rpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"softrdma/internal/session"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A ServerConfig says what a server is made of. The zero value is right for most programs.
type ServerConfig struct {
	// Device is the device to listen on; nil means the device of the address, as in
	// rdmacm.ListenConfig. Protocol and TLS are as there.
	Device   *verbs.Device
	Protocol verbs.Protocol
	TLS      *tls.Config

	// Calls is how many calls of a session may be in flight, at most MaxCalls; 0 means 64.
	// Sessions and Connections bound the sessions of the server and the connections of a
	// session; 0 means 1024 and MaxConnections.
	Calls       int
	Sessions    int
	Connections int

	// Inline is the longest request in bytes that travels in a frame, at most MaxInline; 0 means
	// 4048. The server reads longer requests from the client's memory. Each connection has
	// registered memory for Calls + 32 frames.
	Inline int

	// MaxBody is the longest request that the server accepts, in bytes; 0 means 64 MiB. Bytes
	// bounds the long requests of a session that are in flight together, and likewise the long
	// answers that its client has not read yet; 0 means 256 MiB.
	MaxBody int
	Bytes   int

	// Rails lets a session have connections on several devices of the server (see Dial). One
	// goroutine receives on all of them, instead of one on each.
	Rails bool

	// PeerTimeout is how long a client's device may be silent before a connection counts as
	// broken; 0 means 10 s. SessionTimeout is how long a session without connections is kept;
	// 0 means 60 s.
	PeerTimeout    time.Duration
	SessionTimeout time.Duration

	// Intercept, if not nil, is called for each request instead of its handler, to do what belongs to
	// all methods (see Call.Method). It runs the handler by the function handle, once at most, and
	// returns the error that the client gets. It runs where the handler does, see Run.
	Intercept func(ctx context.Context, c *Call, handle func(context.Context, *Call) error) error

	// Refused, if not nil, is called for each connection that the server refuses, for each that
	// it ends because the client broke the protocol, and for each client that asked for a service
	// or method that the server does not have. It must not block.
	Refused func(peer netip.AddrPort, err error)
}

func (c *ServerConfig) complete() error {
	return errors.Join(
		limit("Calls", &c.Calls, MaxCalls, defaultCalls),
		limit("Sessions", &c.Sessions, 1<<20, 1024),
		limit("Connections", &c.Connections, MaxConnections, MaxConnections),
		limit("Inline", &c.Inline, MaxInline, defaultInline),
		limit("MaxBody", &c.MaxBody, verbs.MaxMessage, defaultBody),
		limit("Bytes", &c.Bytes, 1<<40, defaultBytes),
		period("PeerTimeout", &c.PeerTimeout, 10*time.Second),
		period("SessionTimeout", &c.SessionTimeout, 60*time.Second),
	)
}

// A Server executes the methods of its services for clients. Its methods may be called from any
// goroutine.
type Server struct {
	cfg     ServerConfig
	process session.ID // tells clients that the server is the same process
	context context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	methods   []*Procedure // by number, from 1
	names     map[string]uint32
	services  map[string]bool
	listeners []*rdmacm.Listener
	ports     map[*verbs.Device]*port
	sessions  int
	leaving   *string // where clients are to go, "" for anywhere; nil if they may stay
	closed    bool
	changed   chan struct{} // closed when a session has ended
}

// NewServer makes a server without services. It fails if a field of cfg is out of range.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, process: newID(), names: map[string]uint32{}, services: map[string]bool{}, ports: map[*verbs.Device]*port{},
		methods: []*Procedure{nil}, changed: make(chan struct{})}
	s.context, s.stop = context.WithCancel(context.Background())
	s.methods[lookupNumber] = &Procedure{Name: lookupName, full: lookupName, Codec: Raw, Run: RunReceiver, kind: kindCall, handler: s.lookup}
	return s, nil
}

// Register adds a service with its methods. More methods may be added to a service later.
func (s *Server) Register(service string, methods ...*Procedure) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range methods {
		full := service + "/" + m.Name
		switch {
		case service == "" || m.Name == "" || strings.Count(full, "/") != 1 || len(full) > maxName:
			return fmt.Errorf("rpc: register %q: expected a service and a method without slashes, at most %d bytes together", full, maxName)
		case s.names[full] != 0 || m.full != "":
			return fmt.Errorf("rpc: register %q: the method is registered already", full)
		case m.handler == nil:
			return fmt.Errorf("rpc: register %q: the method has no handler", full)
		}
		if m.Codec == nil {
			m.Codec = Raw
		}
		m.full = full
		s.names[full] = uint32(len(s.methods))
		s.methods = append(s.methods, m)
	}
	s.services[service] = true
	for _, p := range s.ports {
		p.adopt(s.methods)
	}
	return nil
}

// lookup tells a client the number of a method.
func (s *Server) lookup(_ context.Context, c *Call) error {
	q, err := parseQuery(c.body)
	if err != nil {
		return err
	}
	n, err := s.find(q)
	if err != nil {
		s.refused(c.Peer(), err)
		return err
	}
	b, err := c.Reserve(4)
	if err == nil {
		binary.BigEndian.PutUint32(b, n)
	}
	return err
}

func (s *Server) find(q query) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	service, _, _ := strings.Cut(q.name, "/")
	n := s.names[q.name]
	m := s.methods[n]
	switch {
	case !s.services[service]:
		return 0, &Error{UnknownService, fmt.Sprintf("%q", service)}
	case n == 0:
		return 0, &Error{UnknownMethod, fmt.Sprintf("%q", q.name)}
	case m.Codec.Name() != q.codec:
		return 0, &Error{WrongCodec, fmt.Sprintf("%s: the server has %q, the client %q", q.name, m.Codec.Name(), q.codec)}
	case m.kind != q.kind:
		return 0, &Error{WrongKind, q.name}
	}
	return n, nil
}

func (s *Server) refused(peer netip.AddrPort, err error) {
	if s.cfg.Refused != nil {
		s.cfg.Refused(peer, err)
	}
}

// Listen begins to serve on "host:port", and returns the address, which has the port that was chosen
// for port 0. It may be called for several addresses.
func (s *Server) Listen(address string) (netip.AddrPort, error) {
	return s.ListenOn(s.cfg.Device, address)
}

// ListenOn is Listen on a device other than that of the configuration.
func (s *Server) ListenOn(dev *verbs.Device, address string) (netip.AddrPort, error) {
	l, err := rdmacm.Listen(address, rdmacm.ListenConfig{Device: dev, Protocol: s.cfg.Protocol, TLS: s.cfg.TLS})
	if err != nil {
		return netip.AddrPort{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.Close() // it has no clients yet
		return netip.AddrPort{}, ErrClosed
	}
	s.listeners = append(s.listeners, l)
	s.running.Add(1)
	go s.accept(l)
	return l.Addr(), nil
}

// accept answers those who want to connect.
func (s *Server) accept(l *rdmacm.Listener) {
	defer s.running.Done()
	for {
		r, err := l.Request(s.context)
		if err != nil {
			return
		}
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			from := r.RemoteAddr()
			if refusal, err := s.admit(r); err != nil {
				_ = r.Reject(refusal.Bytes()) // the client gives up without it, too
				if s.context.Err() == nil {
					s.refused(from, err)
				}
			}
		}()
	}
}

// admit makes a connection of a request.
func (s *Server) admit(r *rdmacm.Request) (session.Refusal, error) {
	h, err := session.ParseRequest(r.PrivateData())
	switch {
	case errors.Is(err, ErrVersion):
		return session.Refusal{Cause: session.CauseVersion}, err
	case err != nil:
		return session.Refusal{Cause: session.CauseProtocol}, err
	}
	p, err := s.port(r.Device())
	if err != nil {
		return session.Refusal{Cause: session.CauseFull}, err
	}
	return p.admit(r, &h)
}

// port returns the server's port of a device.
func (s *Server) port(dev *verbs.Device) (*port, error) {
	if dev == nil {
		return nil, verbs.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	key := dev
	if s.cfg.Rails {
		key = nil // one for all devices
	}
	p := s.ports[key]
	if p != nil && (s.cfg.Rails || p.e.Alive()) {
		return p, nil
	}
	p, err := newPort(s, dev)
	if err == nil {
		s.ports[key] = p
		p.adopt(s.methods)
	}
	return p, err
}

// all returns the ports.
func (s *Server) all() (list []*port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		list = append(list, p)
	}
	return list
}

// MaxRedirect is the longest address in bytes that Redirect takes.
const MaxRedirect = 100

// Redirect sends clients to another server, at "host:port": it refuses new sessions with that
// address, and asks the clients of others to make new calls there. Calls in flight are finished
// here.
func (s *Server) Redirect(address string) error {
	if address == "" || len(address) > MaxRedirect {
		return fmt.Errorf("rpc: redirect to %q: expected 1 to %d bytes", address, MaxRedirect)
	}
	s.leave(address)
	return nil
}

func (s *Server) leave(address string) {
	s.mu.Lock()
	if s.leaving == nil || address != "" {
		s.leaving = &address
	}
	address = *s.leaving
	s.mu.Unlock()
	for _, p := range s.all() {
		p.leave(address)
	}
}

// Shutdown ends the server gracefully: it refuses new sessions, asks clients to leave, finishes the
// calls in flight, and closes the server when all clients have left, or when ctx ends. Clients make
// calls that were not begun elsewhere: where Redirect has sent them, or at the same address when
// another server listens there. The error is ctx's if calls were cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leave("")
	for {
		s.mu.Lock()
		n, changed := s.sessions, s.changed
		s.mu.Unlock()
		if n == 0 {
			return s.Close()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.Close())
		}
	}
}

// enter counts a new session.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.sessions >= s.cfg.Sessions:
		return ErrSessions
	}
	s.sessions++
	return nil
}

// exit counts a session that has ended.
func (s *Server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
	close(s.changed)
	s.changed = make(chan struct{})
}

// exitLater counts a session that ends while its engine's lock is held.
func (s *Server) exitLater() { go s.exit() }

// Close ends the server: it disconnects clients and cancels the contexts of handlers, for which it
// does not wait. It does not wait for clients either. A second Close returns ErrClosed.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	list := s.listeners
	s.mu.Unlock()
	s.stop()
	var err error
	for _, l := range list {
		err = errors.Join(err, l.Close())
	}
	s.running.Wait() // connections that are being made use the ports
	for _, p := range s.all() {
		p.close()
	}
	return err
}
