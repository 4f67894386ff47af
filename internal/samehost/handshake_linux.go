package samehost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// dial is the dialer's half of the handshake, on a connection that has a deadline. It leaves a
// served channel.
func (h *Host) dial(conn *net.UnixConn, e entry) error {
	p, err := peerOf(conn)
	if err == nil {
		err = h.users.check(p.uid)
	}
	if err != nil {
		h.leave(conn)
		return err
	}
	c := h.newChannel(conn, p, e)
	err = c.dialerExchange()
	if errors.Is(err, unix.EPIPE) {
		err = c.socket.refusedBefore()
	}
	if err == nil {
		err = c.awaitReady()
	}
	if err != nil {
		c.socket.refuse(detailOf(err))
		c.end(err)
		return err
	}
	go c.run()
	return nil
}

// dialerExchange sends this end's memory, receives the acceptor's, and attaches the channel.
func (c *channel) dialerExchange() error {
	h := c.host
	var m message
	fds, err := c.socket.expect(&m, welcome)
	fds.Close()
	if err != nil {
		return err
	}
	if err := h.otherStack(&m, c.process.pid); err != nil {
		return err
	}
	if found := slotOf(int(m.first), int(m.of)); found != c.peer.slot {
		return reason.Detail{Reason: reason.HostMessage, Expected: uint64(c.peer.slot.first), Found: uint64(found.first)}.Err()
	}
	if err := c.make(&m); err != nil {
		return err
	}
	err = c.sendMemory(&message{
		kind: hello, stack: h.cfg.Stack, mode: h.cfg.Mode, lanes: h.cfg.Lanes, first: uint32(h.cfg.First), of: uint32(h.cfg.Of), device: h.cfg.Kind,
		from: h.cfg.Local, to: c.peer.local, name: h.name.String(),
	})
	if err != nil {
		return err
	}
	if fds, err = c.socket.expect(&m, answer); err != nil {
		return err
	}
	defer fds.Close()
	if m.lanes != c.Lanes {
		return malformed(uint64(c.Lanes), uint64(m.lanes))
	}
	if err := c.take(fds); err != nil {
		return err
	}
	if err := c.checkNonce(m.seen); err != nil {
		return err
	}
	c.attach()
	return c.socket.send(&message{kind: confirm, seen: c.theirs()})
}

// awaitReady waits until the acceptor is ready as well.
func (c *channel) awaitReady() error {
	var m message
	fds, err := c.socket.expect(&m, ready)
	fds.Close()
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.host.add(c)
	return nil
}

// serve runs the acceptor's half of the handshake, and then serves the channel.
func (h *Host) serve(conn *net.UnixConn, p process) {
	_ = conn.SetDeadline(time.Now().Add(h.acceptTimeout))
	c := h.newChannel(conn, p, entry{})
	err := c.acceptorExchange()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = timedOut(h.acceptTimeout, h.acceptTimeout) // the dialer asks again
	}
	h.finish(p.uid)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			c.socket.refuse(detailOf(err))
		}
		c.end(err)
		return
	}
	c.run()
}

// acceptorExchange receives the dialer's memory, sends this end's, and attaches the channel.
func (c *channel) acceptorExchange() error {
	h := c.host
	err := c.socket.send(&message{
		kind: welcome, stack: h.cfg.Stack, mode: h.cfg.Mode, lanes: h.cfg.Lanes, first: uint32(h.cfg.First), of: uint32(h.cfg.Of),
	})
	if err != nil {
		return err
	}
	var m message
	if err := c.takeHello(&m); err != nil {
		return err
	}
	err = c.sendMemory(&message{kind: answer, lanes: h.cfg.Lanes, seen: c.theirs()})
	if err != nil {
		return err
	}
	fds, err := c.socket.expect(&m, confirm)
	fds.Close()
	if err != nil {
		return err
	}
	if err := c.checkNonce(m.seen); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.attach()
	h.add(c)
	return c.socket.send(&message{kind: ready})
}

// takeHello reads the dialer's hello with its memory, and makes this end's memory.
func (c *channel) takeHello(m *message) error {
	fds, err := c.socket.expect(m, hello)
	if err != nil {
		return err
	}
	defer fds.Close()
	if err := c.host.checkDialer(c, m); err != nil {
		return err
	}
	if err := c.make(m); err != nil {
		return err
	}
	return c.take(fds)
}

// checkDialer checks the dialer's claims, and sets the channel's name. The dialer's address
// must be that of a socket in the directory that belongs to its user, and vouch must believe
// it.
func (h *Host) checkDialer(c *channel, m *message) error {
	if m.device != h.cfg.Kind || h.inZone(m.to) != h.inZone(h.cfg.Local) {
		return fmt.Errorf("%s device %v wanted: %w", m.device, m.to,
			reason.Detail{Reason: reason.HostMessage, Expected: uint64(h.cfg.Local.Port()), Found: uint64(m.to.Port())}.Err())
	}
	n, ok := parseName(m.name)
	if !ok || n.kind != h.name.kind || n.local != m.from || n.slot != slotOf(int(m.first), int(m.of)) {
		return fmt.Errorf("name %q of %v: %w", m.name, m.from, reason.Detail{Reason: reason.HostMessage, Expected: uint64(m.from.Port()), Found: uint64(n.local.Port())}.Err())
	}
	e, ok := h.dir.entry(n)
	if !ok {
		return reason.Detail{Reason: reason.HostUnpublished, Expected: uint64(m.from.Port())}.Err()
	}
	if e.uid != c.process.uid {
		return reason.Detail{Reason: reason.HostUser, Expected: uint64(e.uid), Found: uint64(c.process.uid)}.Err()
	}
	if err := h.vouch(e); err != nil {
		return err
	}
	if n.space != h.name.space {
		if err := h.onlyIn(n); err != nil {
			return err
		}
	} else if n.local != h.inZone(n.local) { // a link-local address on another link
		return reason.Detail{Reason: reason.HostNamespace, Expected: h.name.space.ino, Found: n.space.ino}.Err()
	}
	c.peer = e
	c.Peer = qp.OnWire(n.local)
	return h.otherStack(m, c.process.pid)
}

// onlyIn returns the reason why packets to its address cannot reach a device in another
// network namespace, or nil.
func (h *Host) onlyIn(n name) error {
	if err := h.foreign(n); err != nil {
		return err
	}
	found, _, err := h.dir.entries(n)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(o entry) bool { return o.space == n.space || h.vouch(o) != nil })
	ctx, cancel := context.WithTimeout(h.ctx, h.acceptTimeout)
	defer cancel()
	_, conn, spaces, _ := h.single(ctx, found)
	if conn != nil {
		_ = conn.Close()
	}
	if spaces > 0 {
		return reason.Detail{Reason: reason.HostAmbiguous, Expected: 1, Found: uint64(1 + spaces)}.Err()
	}
	return nil
}

// otherStack refuses a device of this process, which the loopback path reaches, unless one of
// the two requires the memory path.
func (h *Host) otherStack(m *message, pid int) error {
	if m.stack != h.cfg.Stack || m.mode == Require || h.cfg.Mode == Require {
		return nil
	}
	return reason.Detail{Reason: reason.HostSameProcess, Expected: uint64(os.Getpid()), Found: uint64(pid)}.Err()
}

// theirs returns the nonce in the peer's area.
func (c *channel) theirs() (n nonce) {
	b := c.in.Bytes()
	copy(n[:], b[len(b)-unix.Getpagesize():])
	return n
}
