package samehost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// An attempt to reach a peer is shared by concurrent callers.
type attempt struct {
	done chan struct{}
	err  error
}

// failed records why and when an attempt failed.
type failed struct {
	err error
	at  time.Time
}

// Reach connects to the peer of a queue pair unless there is a channel to it already. It
// returns nil once there is one, else the reason as an error. Queue pair 0 stands for any
// device of the address. Reach waits for at most limit. Concurrent calls share one attempt. A
// peer that has not answered is not asked again for a second, unless the mode is Require. In
// mode Auto it is asked again in the background, so that connections that started on the
// network move to memory.
func (h *Host) Reach(addr netip.AddrPort, qpn uint32, limit time.Duration) error {
	if !h.hold() {
		return closedError()
	}
	defer h.running.Done()
	peer := h.placeOf(addr, qpn)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return closedError()
	}
	if h.connected(peer) {
		h.mu.Unlock()
		return nil
	}
	if f, ok := h.failures[peer]; ok && h.cfg.Mode != Require && detailOf(f.err).Reason == reason.HostTimeout && time.Since(f.at) < unansweredBackOff {
		h.mu.Unlock()
		return f.err
	}
	if a := h.attempts[peer]; a != nil {
		h.mu.Unlock()
		return a.wait(limit)
	}
	a := h.begun(peer)
	h.mu.Unlock()
	h.try(a, peer, limit)
	return a.err
}

// begun returns a new attempt for others to share. The caller holds mu, and calls try.
func (h *Host) begun(peer place) *attempt {
	a := &attempt{done: make(chan struct{})}
	h.attempts[peer] = a
	return a
}

// try runs an attempt.
func (h *Host) try(a *attempt, peer place, limit time.Duration) {
	a.err = h.connect(peer, limit)
	h.mu.Lock()
	delete(h.attempts, peer)
	if a.err != nil && h.connected(peer) {
		a.err = nil // the peer has connected first
	}
	if a.err != nil {
		h.fail(peer, a.err)
		h.askLater(peer, a.err)
	}
	h.mu.Unlock()
	close(a.done)
}

func (a *attempt) wait(limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-a.done:
		return a.err
	case <-t.C:
		return timedOut(limit, limit)
	}
}

func timedOut(limit, waited time.Duration) error {
	return reason.Detail{Reason: reason.HostTimeout, Expected: uint64(limit.Milliseconds()), Found: uint64(waited.Milliseconds())}.Err()
}

// connect makes a channel to a peer.
func (h *Host) connect(peer place, limit time.Duration) error {
	start := time.Now()
	ctx, cancel := context.WithDeadline(h.ctx, start.Add(limit))
	defer cancel()
	err := h.find(ctx, name{kind: h.name.kind, local: peer.addr, slot: peer.slot})
	var named *reason.Error
	switch {
	case err == nil:
		return nil
	case h.ctx.Err() != nil:
		return closedError()
	case errors.As(err, &named):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.EAGAIN):
		return timedOut(limit, time.Since(start))
	}
	return fmt.Errorf("%w: %w", failure(reason.HostRefused, 0, err), err)
}

// find makes a channel to the device that has an address. It prefers this network namespace. A
// name that leads nowhere does not end the search, because any user can publish one.
func (h *Host) find(ctx context.Context, of name) error {
	found, others, err := h.dir.entries(of)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return reason.Detail{Reason: reason.HostUnpublished, Expected: uint64(of.local.Port()), Found: uint64(others)}.Err()
	}
	var foreign []entry
	var why error // of the first name that exists
	for _, e := range found {
		err := h.vouch(e)
		switch {
		case err != nil:
		case e.space != h.name.space:
			foreign = append(foreign, e)
			continue
		default:
			if err = h.greet(ctx, e); err == nil || ctx.Err() != nil {
				return err
			}
		}
		if why == nil && !errors.Is(err, unix.ECONNREFUSED) {
			why = err
		}
	}
	// Names of this namespace, if any, belong to killed processes or are not believed.
	if len(foreign) > 0 {
		if err := h.findForeign(ctx, foreign); err == nil || !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
	}
	if why == nil {
		why = failure(reason.HostStale, len(found), unix.ECONNREFUSED)
	}
	return why
}

// findForeign makes a channel to the device that has an address in another network namespace,
// if only one device has it.
func (h *Host) findForeign(ctx context.Context, found []entry) error {
	if err := h.foreign(found[0].name); err != nil { // the others have the same address
		return err
	}
	e, c, spaces, err := h.single(ctx, found)
	switch {
	case spaces == 0:
		return unix.ECONNREFUSED
	case spaces > 1:
		return reason.Detail{Reason: reason.HostAmbiguous, Expected: 1, Found: uint64(spaces)}.Err()
	case err != nil:
		return err
	}
	return h.shake(ctx, c, e)
}

// greet connects to a name and makes a channel.
func (h *Host) greet(ctx context.Context, e entry) error {
	c, err := h.call(ctx, e)
	if err != nil {
		return err
	}
	return h.shake(ctx, c, e)
}

// shake makes a channel from a connection.
func (h *Host) shake(ctx context.Context, c *net.UnixConn, e entry) error {
	if !h.enter(c) {
		_ = c.Close()
		return closedError()
	}
	limit, _ := ctx.Deadline()
	_ = c.SetDeadline(limit)
	return h.dial(c, e) // which serves it
}

// single connects to the device that has an address in another network namespace, and counts
// the namespaces in which a device has it, up to two. The connection is nil unless the count
// is one. The error says why the connection to that device failed.
func (h *Host) single(ctx context.Context, found []entry) (of entry, conn *net.UnixConn, spaces int, err error) {
	seen := map[space]bool{h.name.space: true}
	for _, e := range found {
		if seen[e.space] {
			continue
		}
		c, failed := h.call(ctx, e)
		if errors.Is(failed, unix.ECONNREFUSED) {
			continue
		}
		seen[e.space] = true
		spaces++
		if spaces == 1 {
			of, conn, err = e, c, failed
			continue
		}
		for _, c := range []*net.UnixConn{c, conn} {
			if c != nil {
				_ = c.Close()
			}
		}
		return of, nil, spaces, err
	}
	return of, conn, spaces, err
}

// foreign returns the reason why a device in another network namespace is not the peer, or
// nil.
func (h *Host) foreign(n name) error {
	a := n.local.Addr()
	local := a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast()
	if !local {
		own, err := net.InterfaceAddrs()
		if err != nil {
			return failure(reason.HostResources, 0, err)
		}
		for _, o := range own {
			if p, ok := o.(*net.IPNet); ok {
				if x, ok := netip.AddrFromSlice(p.IP); ok && x.Unmap() == a {
					local = true
				}
			}
		}
	}
	if local {
		return reason.Detail{Reason: reason.HostNamespace, Expected: h.name.space.ino, Found: n.space.ino}.Err()
	}
	return nil
}

// forget removes the name of a peer that has gone, if its process was killed. A process that
// is about to end may still listen, but it sends no welcome.
func (h *Host) forget(e entry) {
	for range 3 {
		c, err := h.call(h.ctx, e)
		if errors.Is(err, unix.ECONNREFUSED) {
			h.dir.remove(e.String())
			return
		}
		if err != nil || !h.enter(c) {
			if c != nil {
				_ = c.Close()
			}
			return
		}
		_ = c.SetDeadline(time.Now().Add(forgetTimeout))
		var m message
		fds, err := newSocket(c).receive(&m)
		fds.Close()
		h.leave(c)
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// forgetTimeout bounds the wait for the welcome of a peer that may have gone.
const forgetTimeout = 200 * time.Millisecond

// call connects to a name if the owner of its file listens there.
func (h *Host) call(ctx context.Context, e entry) (*net.UnixConn, error) {
	f, err := h.dir.open(e.String())
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTSOCK) || errors.Is(err, unix.ELOOP) { // removed meanwhile
		return nil, unix.ECONNREFUSED
	}
	if err != nil {
		return nil, resources(0, err)
	}
	defer f.close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", f.path())
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil, reason.Detail{Reason: reason.HostUser, Expected: uint64(h.users.own), Found: uint64(e.uid)}.Err()
	}
	if err != nil {
		return nil, err
	}
	c := conn.(*net.UnixConn)
	p, err := peerOf(c)
	if err == nil && p.uid != e.uid {
		err = reason.Detail{Reason: reason.HostUser, Expected: uint64(e.uid), Found: uint64(p.uid)}.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// connected reports whether there is a channel to a peer.
func (h *Host) connected(peer place) bool {
	return h.newest(peer) != nil
}

// Why returns the reason why there is no channel to the peer of a queue pair: the result of
// the last attempt, or the end of the last channel. The reason is None if there is a channel
// or was no attempt.
func (h *Host) Why(peer netip.AddrPort, qpn uint32) reason.Detail {
	if !h.hold() {
		return detailOf(closedError())
	}
	defer h.running.Done()
	at := h.placeOf(peer, qpn)
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.failures[at]
	if !ok {
		return reason.Detail{}
	}
	return detailOf(f.err)
}

// fail records why a peer cannot be reached.
func (h *Host) fail(peer place, err error) {
	if len(h.failures) >= maxFailures {
		clear(h.failures)
	}
	h.failures[peer] = failed{err, time.Now()}
}
