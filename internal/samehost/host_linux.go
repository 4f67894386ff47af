package samehost

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Limits per device on what peers may use.
const (
	maxPending        = 64              // concurrent handshakes of all users
	maxPendingOther   = 8               // of one other user
	maxChannels       = 4096            // of all users
	maxChannelsOther  = 64              // of one other user
	maxPeerChannels   = 4               // of one peer: more than two means that it has restarted
	maxFailures       = 1024            // peers whose last failure is kept
	acceptTimeout     = 5 * time.Second // as long as dialers that require memory wait
	exhaustedPause    = 50 * time.Millisecond
	unansweredBackOff = time.Second
)

// A Host is a device's access to the memory path.
type Host struct {
	cfg      Config
	users    *users
	dir      *directory
	name     name
	listener *net.UnixListener
	ctx      context.Context // canceled by Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	acceptTimeout time.Duration // of the acceptor's half of a handshake

	mu       sync.Mutex
	closed   bool
	conns    map[*net.UnixConn]struct{}
	channels map[place][]*channel // newest last
	count    map[uint32]*counts   // by user
	total    counts
	attempts map[place]*attempt
	failures map[place]failed
	later    map[place]bool // peers that are retried in the background
}

// counts holds what the peers of a user use.
type counts struct{ pending, channels int }

// Open publishes the device and accepts peers.
func Open(cfg Config) (*Host, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	u, err := newUsers(uint32(os.Geteuid()), allMapped(), cfg.Allow)
	if err != nil {
		return nil, err
	}
	in, err := ownSpace()
	if err != nil {
		return nil, err
	}
	if cfg.Stack == 0 {
		cfg.Stack = processStack()
	}
	dir, err := openDirectory(cfg.Dir, u)
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, users: u, dir: dir,
		name:     name{kind: kindText(cfg.Kind), local: cfg.Local, slot: slotOf(cfg.First, cfg.Of), space: in, since: uint64(time.Now().UnixNano())},
		conns:    make(map[*net.UnixConn]struct{}),
		channels: make(map[place][]*channel),
		count:    make(map[uint32]*counts),
		attempts: make(map[place]*attempt),
		failures: make(map[place]failed),
		later:    make(map[place]bool),

		acceptTimeout: cmp.Or(cfg.acceptTimeout, acceptTimeout),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	dir.replaceStale(h.name)
	mode := os.FileMode(0o600)
	if u.shared() {
		mode = 0o666 // credentials decide
	}
	if h.listener, err = dir.listen(h.name, mode); err != nil {
		h.cancel()
		dir.close()
		return nil, err
	}
	if !h.publish() {
		_ = h.listener.Close()
		dir.remove(h.name.String())
		h.cancel()
		dir.close()
		return nil, closedError()
	}
	h.running.Add(1)
	go h.accept()
	return h, nil
}

// processStack is the default stack.
var processStack = sync.OnceValue(func() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
})

// Dir returns the path of the directory.
func (h *Host) Dir() string { return h.dir.path }

// Name returns the name of the device's socket in the directory.
func (h *Host) Name() string { return h.name.String() }

// Close ends all channels, and calls Detach for each. When it returns, the device is no longer
// published, and no goroutine, descriptor or mapping is left. It must not be called from
// Attach or Detach, nor while the caller holds a lock that Detach takes.
func (h *Host) Close() error {
	h.mu.Lock()
	again := h.closed
	h.closed = true
	var used []*channel
	for _, list := range h.channels {
		used = append(used, list...)
	}
	h.mu.Unlock()
	for _, c := range used {
		c.detach() // before the peer learns of the end, so that it can still receive the last messages
	}
	h.mu.Lock()
	for c := range h.conns {
		_ = c.Close()
	}
	h.mu.Unlock()
	var err error
	if !again {
		h.cancel()
		h.unpublish()
		err = h.listener.Close()
	}
	h.running.Wait()
	if !again {
		h.dir.close()
	}
	return err
}

// closedError returns the error of calls on a closed Host.
func closedError() error { return reason.Detail{Reason: reason.DeviceClosed, Expected: 1}.Err() }

// hold makes Close wait until running.Done. It reports false if Close was already called.
func (h *Host) hold() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.running.Add(1)
	return true
}

// enter makes Close close the connection and wait for its goroutine, which calls leave. It
// reports false if Close was already called.
func (h *Host) enter(c *net.UnixConn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.conns[c] = struct{}{}
	h.running.Add(1)
	return true
}

func (h *Host) leave(c *net.UnixConn) {
	h.mu.Lock()
	delete(h.conns, c)
	h.mu.Unlock()
	_ = c.Close()
	h.running.Done()
}

// accept takes connections until the listener is closed.
func (h *Host) accept() {
	defer h.running.Done()
	for {
		c, err := h.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors
			select {
			case <-time.After(exhaustedPause):
				continue
			case <-h.ctx.Done():
				return
			}
		}
		h.admit(c)
	}
}

// admit decides about a connection before anything is read from it or opened for it. Refused
// connections hold no resources, however fast they come.
func (h *Host) admit(c *net.UnixConn) {
	p, err := peerOf(c)
	if err == nil {
		err = h.users.check(p.uid)
	}
	if err == nil {
		err = h.begin(p.uid)
	}
	if err != nil {
		newSocket(c).refuse(detailOf(err))
		_ = c.Close()
		return
	}
	if !h.enter(c) {
		h.finish(p.uid)
		_ = c.Close()
		return
	}
	go h.serve(c, p)
}

// begin counts a handshake of a user. finish undoes it.
func (h *Host) begin(uid uint32) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.counts(uid)
	own := h.users.same(uid)
	switch {
	case h.total.pending >= maxPending:
		return tooMany(maxPending, h.total.pending)
	case !own && n.pending >= maxPendingOther:
		return tooMany(maxPendingOther, n.pending)
	case h.total.channels >= maxChannels:
		return tooMany(maxChannels, h.total.channels)
	case !own && n.channels >= maxChannelsOther:
		return tooMany(maxChannelsOther, n.channels)
	}
	h.total.pending++
	n.pending++
	return nil
}

func (h *Host) finish(uid uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total.pending--
	h.counts(uid).pending--
}

func (h *Host) counts(uid uint32) *counts {
	n := h.count[uid]
	if n == nil {
		n = new(counts)
		h.count[uid] = n
	}
	return n
}

func tooMany(limit, found int) error {
	return reason.Detail{Reason: reason.HostLimit, Expected: uint64(limit), Found: uint64(found + 1)}.Err()
}

// add registers a channel. If its peer has too many, the oldest are closed.
func (h *Host) add(c *channel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	peer := c.place()
	list := append(h.channels[peer], c)
	h.channels[peer] = list
	for _, old := range list[:max(len(list)-maxPeerChannels, 0)] {
		old.Close() // several if earlier ones have not ended yet
	}
	delete(h.failures, peer)
	h.total.channels++
	h.counts(c.process.uid).channels++
}

// remove undoes add, and keeps the reason why the channel has ended unless it is nil.
func (h *Host) remove(c *channel, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	peer := c.place()
	list := h.channels[peer]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(h.channels, peer)
		if why != nil {
			h.fail(peer, why)
		}
	} else {
		h.channels[peer] = list
	}
	h.total.channels--
	h.counts(c.process.uid).channels--
}

// inZone returns an address with this device's zone.
func (h *Host) inZone(peer netip.AddrPort) netip.AddrPort { return qp.InZone(peer, h.cfg.Local) }

// detailOf returns the reason of an error.
func detailOf(err error) reason.Detail {
	var e *reason.Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return detailOf(failure(reason.HostRefused, 0, err))
}

// resources wraps a system error that occurred while a channel was made.
func resources(size int, err error) error {
	var e *reason.Error
	if errors.As(err, &e) {
		return err
	}
	return errors.Join(failure(reason.HostResources, size, err), err)
}

// newMemory makes the memory of an area, with a page for a nonce at its end.
func newMemory(size int) (*hostmem.Memory, error) {
	m, err := hostmem.NewMemory(size + unix.Getpagesize())
	if err != nil {
		return nil, resources(size, err)
	}
	return m, nil
}
