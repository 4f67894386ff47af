package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/internal/buffers"
	"softrdma/storage/internal/shares"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// A Config configures a target. The zero value suits most programs.
type Config struct {
	Limits controller.Limits

	// Connections is how many queues hosts may have at a time; others are rejected; 0 means 1,024. One host
	// may have a quarter of them without a disk: for discovery, or before it is authenticated.
	Connections int

	// Buffers bounds the bytes of data of the commands of one namespace that are in progress, and those
	// of all commands without a namespace, and those of discovery. Further commands wait, so that a backend that is stuck takes
	// no buffers of others. 0 means 64 MiB. It is at least Limits.MaxTransfer.
	Buffers int

	// Events is called for what happens to connections and for refused commands, on the goroutines of
	// queues. It must not block. Nil is allowed.
	Events func(Event)
}

// An EventKind says what has happened.
type EventKind string

// The kinds.
const (
	Connected EventKind = "connected" // a host's queue
	Rejected  EventKind = "rejected"  // a host's request for a connection
	Refused   EventKind = "refused"   // a command
	Ended     EventKind = "ended"     // a queue
)

// An Event is what has happened to a queue.
type Event struct {
	Kind       EventKind
	Peer       netip.AddrPort
	Controller uint16 // 0 before the host has connected to it
	Queue      uint16
	Host       string // qualified name
	Err        error  // why; for a refused command a *controller.Refusal
}

// String returns the event in one line.
func (e Event) String() string {
	s := fmt.Sprintf("host %v", e.Peer)
	if e.Controller != 0 {
		s += fmt.Sprintf(" (%s), controller %d, queue %d", e.Host, e.Controller, e.Queue)
	}
	s += ": " + string(e.Kind)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Counts are what a target has done.
type Counts struct {
	Queues, Controllers            int
	Commands, Refused, Rejected    uint64
	BytesToHosts, BytesFromHosts   uint64
	Connections, EndedByExpiration uint64
}

// A Target serves the namespaces of subsystems.
type Target struct {
	cfg  Config
	subs *controller.Subsystems

	buffers   *buffers.Budget // of commands without a namespace
	discovery *buffers.Budget // of commands to the discovery service
	guests    *shares.Shares  // of connections that hosts do not use for a disk

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	adapters  map[*verbs.Device]*adapter
	queues    map[*controller.Queue]*queue
	listeners []*rdmacm.Listener
	accepted  int                         // connections at present
	lost      map[*verbs.Device]time.Time // until when a rule of faults loses the path

	commands, refused, rejected, toHosts, fromHosts, connections, expired atomic.Uint64
}

// New returns a target without subsystems. Close ends it.
func New(cfg Config) (*Target, error) {
	subs, err := controller.New(cfg.Limits)
	if err != nil {
		return nil, err
	}
	if cfg.Connections == 0 {
		cfg.Connections = 1024
	}
	if cfg.Buffers == 0 {
		cfg.Buffers = 64 << 20
	}
	cfg.Buffers = max(cfg.Buffers, subs.Limits().MaxTransfer)
	if cfg.Events == nil {
		cfg.Events = func(Event) {}
	}
	t := &Target{
		cfg: cfg, subs: subs, buffers: buffers.NewBudget(cfg.Buffers), discovery: buffers.NewBudget(cfg.Buffers),
		adapters: make(map[*verbs.Device]*adapter), queues: make(map[*controller.Queue]*queue),
		guests: shares.New(cfg.Connections), lost: make(map[*verbs.Device]time.Time),
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.work.Go(t.expire)
	return t, nil
}

// AddSubsystem adds a subsystem, whose fields must not change afterwards.
func (t *Target) AddSubsystem(sub *controller.Subsystem) error { return t.subs.Add(sub) }

// Subsystems returns the machine of the target, for states of groups and traffic.
func (t *Target) Subsystems() *controller.Subsystems { return t.subs }

// Counts returns what the target has done.
func (t *Target) Counts() Counts {
	t.mu.Lock()
	queues := len(t.queues)
	t.mu.Unlock()
	return Counts{
		Queues: queues, Controllers: t.subs.Controllers(), Commands: t.commands.Load(), Refused: t.refused.Load(), Rejected: t.rejected.Load(),
		BytesToHosts: t.toHosts.Load(), BytesFromHosts: t.fromHosts.Load(), Connections: t.connections.Load(), EndedByExpiration: t.expired.Load(),
	}
}

// Listen accepts hosts at "host:port". A target may listen at several addresses.
func (t *Target) Listen(addr string, cfg rdmacm.ListenConfig) (netip.AddrPort, error) {
	l, err := rdmacm.Listen(addr, cfg)
	if err != nil {
		return netip.AddrPort{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return netip.AddrPort{}, errors.Join(errClosed, l.Close())
	}
	t.listeners = append(t.listeners, l)
	t.work.Go(func() { t.serve(l) })
	return l.Addr(), nil
}

// serve accepts hosts until the listener is closed.
func (t *Target) serve(l *rdmacm.Listener) {
	for {
		r, err := l.Request(t.ctx)
		if err != nil {
			return
		}
		t.work.Go(func() { t.accept(r) })
	}
}

// checkInterval is the interval at which the target looks for silent hosts.
const checkInterval = 500 * time.Millisecond

// expire ends the controllers of silent hosts.
func (t *Target) expire() {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case now := <-tick.C:
			ended := t.subs.Expire(now)
			t.expired.Add(uint64(len(ended)))
			t.endAll(ended, &status.Error{Status: status.KeepAliveExpired})
			t.endUnused(now)
		}
	}
}

const (
	// connectTime bounds how long a connection may be without the connect command, which makes it a
	// queue of a controller, and without authentication.
	connectTime = 30 * time.Second
	// stallTime bounds how long a host may take no response and no data, as it does without receives.
	// Its commands hold buffers that all hosts share.
	stallTime = 30 * time.Second
)

// all returns the queues.
func (t *Target) all() []*queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.queues))
}

// endUnused ends connections whose hosts do not send the connect command, or do not take responses.
func (t *Target) endUnused(now time.Time) {
	for _, q := range t.all() {
		switch {
		case now.Sub(q.since) <= connectTime || q.machine.Ready():
		case q.machine.Name().Controller == 0:
			q.end(fmt.Errorf("expected a connect command within %v, found none", connectTime))
		default:
			q.end(fmt.Errorf("expected the host to authenticate within %v", connectTime))
		}
		if q.stalled(now) {
			q.end(fmt.Errorf("expected the host to take a response or data within %v", stallTime))
		}
	}
}

// endAll ends the connections of queues.
func (t *Target) endAll(list []*controller.Queue, why error) {
	for _, m := range list {
		t.mu.Lock()
		q := t.queues[m]
		t.mu.Unlock()
		if q != nil {
			q.end(why)
		}
	}
}

// errClosed is why queues end with their target.
var errClosed = errors.New("the target is closed")

// Close ends all connections and waits until their memory is released.
func (t *Target) Close() (err error) {
	t.mu.Lock()
	t.stop() // under the lock, so that Listen adds no listener afterwards
	listeners, queues := t.listeners, t.queues
	t.listeners = nil
	ends := make([]*queue, 0, len(queues))
	for _, q := range queues {
		ends = append(ends, q)
	}
	t.mu.Unlock()
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	for _, q := range ends {
		q.end(errClosed)
	}
	t.work.Wait()
	return err
}
