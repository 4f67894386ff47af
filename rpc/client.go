package rpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/session"
	"softrdma/internal/waiting"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Limits and defaults of a ClientConfig and a ServerConfig.
const (
	MaxInline      = 64<<10 - 48 // bytes
	MaxCalls       = 1 << 10
	MaxConnections = 64

	defaultInline = 4048
	defaultCalls  = 64
	defaultBody   = 64 << 20
	defaultBytes  = 256 << 20
)

// A ClientConfig says what a client is made of. The zero value is right for most programs.
type ClientConfig struct {
	// Device is the device to use; nil means the one by which the host reaches the server, as
	// in rdmacm.Dialer. Protocol, TLS and RemoteUDPPort are as there.
	Device        *verbs.Device
	Protocol      verbs.Protocol
	TLS           *tls.Config
	RemoteUDPPort uint16

	// Rails are the devices for the second address of the server and those behind it (see
	// Dial), as Device is for the first.
	Rails []*verbs.Device

	// Connections is how many connections a session has with each address of the server, at
	// most MaxConnections; 0 means 1.
	// Calls are spread over them. Several pay off on devices with several lanes, and a session
	// continues when one breaks.
	Connections int

	// Calls is how many calls may be in flight, at most MaxCalls; 0 means 64. The server may
	// allow less. Further calls wait, or fail with ErrBusy if NoWait is set.
	Calls  int
	NoWait bool

	// Inline is the longest answer in bytes that travels in a frame, at most MaxInline; 0 means
	// 4048. The client reads longer answers from the server's memory. Each connection has
	// registered memory for Calls + 32 frames.
	Inline int

	// MaxBody is the longest answer that the client accepts, in bytes; 0 means 64 MiB.
	MaxBody int

	// Intercept, if not nil, is called for each call, with the name of its method, to do what belongs to
	// all calls. It makes the call by the function call, with ctx or one that is derived from it, and
	// returns the error that the caller gets. It may make the call again: the last answer counts.
	Intercept func(ctx context.Context, method string, call func(context.Context) error) error

	// PeerTimeout is how long the server's device may be silent before a connection counts as
	// broken; 0 means 10 s. The devices themselves keep a connection alive, so a server that is
	// busy is not taken for dead.
	PeerTimeout time.Duration

	// ConnectTimeout bounds each attempt to connect; 0 means 3 s. ReconnectTimeout is how long a
	// client whose connections are broken tries to connect before its calls fail; 0 means 30 s.
	ConnectTimeout   time.Duration
	ReconnectTimeout time.Duration
}

// limit checks a limit and sets its default.
func limit(name string, v *int, most, def int) error {
	if *v < 0 || *v > most {
		return fmt.Errorf("rpc: %s is %d, expected 0 to %d", name, *v, most)
	}
	if *v == 0 {
		*v = def
	}
	return nil
}

// period checks a duration and sets its default.
func period(name string, v *time.Duration, def time.Duration) error {
	if *v < 0 {
		return fmt.Errorf("rpc: %s is %v, expected a positive duration", name, *v)
	}
	if *v == 0 {
		*v = def
	}
	return nil
}

func (c *ClientConfig) complete() error {
	return errors.Join(
		limit("Connections", &c.Connections, MaxConnections, 1),
		limit("Calls", &c.Calls, MaxCalls, defaultCalls),
		limit("Inline", &c.Inline, MaxInline, defaultInline),
		limit("MaxBody", &c.MaxBody, verbs.MaxMessage, defaultBody),
		period("PeerTimeout", &c.PeerTimeout, 10*time.Second),
		period("ConnectTimeout", &c.ConnectTimeout, 3*time.Second),
		period("ReconnectTimeout", &c.ReconnectTimeout, 30*time.Second),
	)
}

// A Client makes calls to the server at one address. Its methods may be called from any goroutine.
type Client struct {
	cfg     ClientConfig
	address string

	current atomic.Pointer[link] // nil before Dial and after Close
	mu      sync.Mutex           // who replaces current
	attempt *attempt             // to do so
	closed  atomic.Bool
	context context.Context // until Close
	stop    context.CancelFunc
	running sync.WaitGroup // links

	linksMu sync.Mutex
	links   map[*link]bool // those that have not ended
}

func (c *Client) remember(s *link) {
	c.running.Add(1)
	c.linksMu.Lock()
	defer c.linksMu.Unlock()
	c.links[s] = true
}

func (c *Client) forget(s *link) {
	c.linksMu.Lock()
	delete(c.links, s)
	c.linksMu.Unlock()
	c.running.Done()
}

// Dial connects to the server at "host:port". It follows redirections. The error matches
// ErrUnreachable if nothing listens there or answers, and ErrPeer, ErrVersion, ErrSessions or
// Draining if the server refuses.
//
// Several addresses of one server, at most MaxRails, are separated by commas. The session then has
// connections with all of them, and continues while one of them works: calls whose connections break are
// repeated on others, and executed once. The server needs ServerConfig.Rails if the addresses are
// those of different devices; otherwise the error matches ErrRails.
func Dial(ctx context.Context, address string, cfg ClientConfig) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, address: address, links: map[*link]bool{}}
	c.context, c.stop = context.WithCancel(context.Background())
	s, err := c.connect(ctx, address)
	if err != nil {
		c.stop()
		return nil, err
	}
	c.current.Store(s)
	return c, nil
}

// maxRedirects bounds how often a client follows a redirection in a row.
const maxRedirects = 8

// A moved is a refusal that names another address.
type moved struct{ address string }

func (m *moved) Error() string { return "rpc: the server has moved to " + m.address }

// connect makes a session with the server at an address, or where it redirects to.
func (c *Client) connect(ctx context.Context, address string) (*link, error) {
	for range maxRedirects {
		s, err := c.newLink(ctx, address)
		var to *moved
		if !errors.As(err, &to) {
			return s, err
		}
		address = to.address
	}
	return nil, fmt.Errorf("%w: redirected %d times in a row, at last to %s", ErrUnreachable, maxRedirects, address)
}

// An attempt makes a session for all calls that wait for one, so that they fail together.
type attempt struct {
	done chan struct{}
	link *link
	err  error
}

// session returns the session for new calls. If there is none, it makes one.
func (c *Client) session(ctx context.Context) (*link, error) {
	if s := c.current.Load(); s != nil && s.usable.Load() {
		return s, nil
	}
	c.mu.Lock()
	old := c.current.Load()
	switch {
	case c.closed.Load():
		c.mu.Unlock()
		return nil, ErrClosed
	case old != nil && old.usable.Load():
		c.mu.Unlock()
		return old, nil
	}
	a := c.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		c.running.Add(1)
		go c.renew(a, old)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// renew makes the session that follows an old one.
func (c *Client) renew(a *attempt, old *link) {
	defer c.running.Done()
	address := c.address
	if old != nil {
		if to := old.successor(); to != "" {
			address = to
		}
	}
	ctx, cancel := context.WithTimeout(c.context, c.cfg.ReconnectTimeout)
	defer cancel()
	a.link, a.err = c.retry(ctx, address)
	c.mu.Lock()
	c.attempt = nil
	switch closed := c.closed.Load(); {
	case closed && a.err == nil:
		go a.link.shut(ErrClosed) // Close waits for it
		a.link, a.err = nil, ErrClosed
	case closed:
		a.err = ErrClosed
	case a.err == nil:
		c.current.Store(a.link)
	}
	c.mu.Unlock()
	close(a.done)
}

// retry connects until it succeeds, the server refuses for good, or ctx ends.
func (c *Client) retry(ctx context.Context, address string) (*link, error) {
	var last error
	for pauses := (waiting.Backoff{First: firstPause, Last: lastPause}); ; {
		s, err := c.connect(ctx, address)
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, ErrVersion), errors.Is(err, ErrPeer), errors.Is(err, ErrProtocol), errors.Is(err, verbs.ErrClosed):
			return nil, err
		case ctx.Err() == nil || last == nil:
			last = err
		}
		address = c.address // a successor that is gone may have been replaced
		if pauses.Wait(ctx) != nil {
			return nil, last
		}
	}
}

// Pauses between attempts to connect.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Buffer returns registered memory for a body of n bytes, which calls of this client send without
// a copy. The caller releases it.
func (c *Client) Buffer(n int) (*Buffer, error) {
	s, err := c.session(c.context)
	if err != nil {
		return nil, err
	}
	return s.pool.get(n)
}

// Limits returns how many bytes the longest request has that the server accepts, and the longest answer that
// the client accepts.
func (c *Client) Limits(ctx context.Context) (request, answer int, err error) {
	s, err := c.session(ctx)
	if err != nil {
		return 0, 0, err
	}
	return int(min(s.server.Body, s.server.Bytes, verbs.MaxMessage)), c.cfg.MaxBody, nil
}

// Close ends the client. Calls in flight fail with ErrClosed; whether they were executed is
// unknown. It takes at most a fraction of a second, whatever the server does. A second Close
// returns ErrClosed.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return ErrClosed
	}
	c.stop()
	c.mu.Lock()
	c.current.Store(nil)
	c.mu.Unlock()
	c.linksMu.Lock()
	all := slices.Collect(maps.Keys(c.links))
	c.linksMu.Unlock()
	for _, s := range all {
		s.shut(ErrClosed)
	}
	c.running.Wait()
	return nil
}

// newID returns the number of a session.
func newID() (id session.ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// refusal names why a connection was not made.
func refusal(address string, err error) error {
	var r *rdmacm.RejectedError
	if !errors.As(err, &r) {
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, address, err)
	}
	const consumer = 28 // IBTA 12.6.7.2: the program rejected, not its device
	why, wrong := session.ParseRefusal(r.PrivateData)
	switch {
	case errors.Is(wrong, ErrVersion):
		return fmt.Errorf("%w: %s: %w", wrong, address, err)
	case wrong != nil && (r.Code != consumer || len(bytes.Trim(r.PrivateData, "\x00")) == 0): // nothing listens, or no longer
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, address, err)
	case wrong != nil:
		return fmt.Errorf("%w: %s: %w", wrong, address, err)
	}
	switch why.Cause {
	case session.CauseVersion:
		return fmt.Errorf("%w: %s", ErrVersion, address)
	case session.CauseUnknown:
		return fmt.Errorf("%w: %s", ErrOutcomeUnknown, address)
	case session.CauseFull:
		return fmt.Errorf("%w: %s", ErrSessions, address)
	case session.CauseMoved:
		return &moved{why.Address}
	case session.CauseProtocol:
		return fmt.Errorf("%w: %s says so of this client", ErrProtocol, address)
	}
	return &Error{Draining, address}
}
