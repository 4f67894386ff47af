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

// An attempt to reach a peer is shared by all who want to.
type attempt struct {
	done chan struct{}
	err  error
}

// failed is why an attempt did not succeed, and when.
type failed struct {
	err error
	at  time.Time
}

// Reach returns nil if there is a channel to the peer of a queue pair, or once one was made,
// and otherwise an error with the reason. Queue pair 0 stands for any device of the address.
// Reach waits for at most limit. Calls at the same time share one attempt. A peer that has not
// answered is not asked again for a second, unless the mode is Require. In mode Auto it is asked
// again in the background, so that connections which have begun on the network move to memory.
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

// begun returns a new attempt, which others share from now on. The caller has mu, and calls try.
func (h *Host) begun(peer place) *attempt {
	a := &attempt{done: make(chan struct{})}
	h.attempts[peer] = a
	return a
}

// try makes an attempt.
func (h *Host) try(a *attempt, peer place, limit time.Duration) {
	a.err = h.connect(peer, limit)
	h.mu.Lock()
	delete(h.attempts, peer)
	if a.err != nil && h.connected(peer) {
		a.err = nil // the peer was faster
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
	n, c, err := h.find(ctx, name{kind: h.name.kind, local: peer.addr, slot: peer.slot})
	if err == nil {
		if !h.enter(c) {
			_ = c.Close()
			return closedError()
		}
		_ = c.SetDeadline(start.Add(limit))
		err = h.dial(c, n) // which leaves
	}
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

// find connects to the device that has an address. It prefers this network namespace.
func (h *Host) find(ctx context.Context, of name) (name, *net.UnixConn, error) {
	found, others, err := h.dir.names(of)
	if err != nil {
		return name{}, nil, err
	}
	if len(found) == 0 {
		return name{}, nil, reason.Detail{Reason: reason.HostUnpublished, Expected: uint64(of.local.Port()), Found: uint64(others)}.Err()
	}
	refusal := failure(reason.HostStale, len(found), unix.ECONNREFUSED)
	for _, n := range found {
		if n.space != h.name.space {
			continue
		}
		c, err := h.call(ctx, n)
		if err == nil {
			return n, c, nil
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return n, nil, err
		}
	}
	// Names of this namespace, if there were any, are of killed processes.
	for _, n := range found {
		if n.space != h.name.space {
			if err := h.foreign(n); err != nil {
				return n, nil, err
			}
			break // the others have the same address
		}
	}
	n, c, spaces, err := h.single(ctx, found)
	switch {
	case spaces == 0:
		return n, nil, refusal
	case spaces > 1:
		return n, nil, reason.Detail{Reason: reason.HostAmbiguous, Expected: 1, Found: uint64(spaces)}.Err()
	}
	return n, c, err
}

// single connects to the device that has an address in another network namespace, and
// returns in how many of them a device has it. The connection is nil unless there is one.
// The error is why the connection to that one failed.
func (h *Host) single(ctx context.Context, found []name) (of name, conn *net.UnixConn, spaces int, err error) {
	seen := map[space]bool{h.name.space: true}
	for _, n := range found {
		if seen[n.space] {
			continue
		}
		c, e := h.call(ctx, n)
		if errors.Is(e, unix.ECONNREFUSED) {
			continue
		}
		seen[n.space] = true
		spaces++
		if spaces == 1 {
			of, conn, err = n, c, e
			continue
		}
		if c != nil {
			_ = c.Close()
		}
	}
	if spaces > 1 && conn != nil {
		_ = conn.Close()
		conn = nil
	}
	return of, conn, spaces, err
}

// foreign returns why a device in another network namespace is not the peer, or nil.
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

// forget removes the name of a peer that has gone, if its process was killed. A process
// that is about to end may still listen: then it sends no welcome.
func (h *Host) forget(n name) {
	for range 3 {
		c, err := h.call(h.ctx, n)
		if errors.Is(err, unix.ECONNREFUSED) {
			h.dir.remove(n.String())
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
		fds.close()
		h.leave(c)
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// forgetTimeout bounds the wait for the greeting of a peer that may have gone.
const forgetTimeout = 200 * time.Millisecond

// call connects to a name.
func (h *Host) call(ctx context.Context, n name) (*net.UnixConn, error) {
	text := n.String()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", h.dir.at(text))
	if err == nil {
		return c.(*net.UnixConn), nil
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		uid, _ := h.dir.owner(text)
		return nil, reason.Detail{Reason: reason.HostUser, Expected: uint64(h.users.own), Found: uint64(uid)}.Err()
	}
	if errors.Is(err, unix.ENOENT) { // it was closed meanwhile
		return nil, unix.ECONNREFUSED
	}
	return nil, err
}

// connected reports whether there is a channel to a peer.
func (h *Host) connected(peer place) bool {
	return h.newest(peer) != nil
}

// Why returns why there is no channel to the peer of a queue pair: what the last attempt has
// found, or why the last channel has ended. It has no reason if there is a channel, or was no
// attempt.
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

// fail keeps why a peer cannot be reached.
func (h *Host) fail(peer place, err error) {
	if len(h.failures) >= maxFailures {
		clear(h.failures)
	}
	h.failures[peer] = failed{err, time.Now()}
}
