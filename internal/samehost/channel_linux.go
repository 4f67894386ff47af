package samehost

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// A channel is the connection to a peer, from the handshake to its end. It implements
// hostmem.Far. One goroutine at a time drives it: first that of the handshake, then run.
type channel struct {
	hostmem.Channel
	*socket
	host    *Host
	process process
	same    bool // the same user: memory may be shared
	peer    entry

	out, in  *hostmem.Memory
	bells    []*hostmem.Bell   // of our lanes
	ringers  []*hostmem.Ringer // of the peer's
	nonce    nonce             // as the peer sees it in our area
	use      sync.Mutex
	attached bool // use guards it, and is held while Attach and Detach run
	ended    atomic.Bool

	outbox   outbox
	segments segments
	views    questions
}

func (h *Host) newChannel(conn *net.UnixConn, p process, e entry) *channel {
	c := &channel{socket: newSocket(conn), host: h, process: p, same: h.users.same(p.uid), peer: e}
	_, _ = rand.Read(c.nonce[:]) // never fails
	if e.local.IsValid() {
		c.Peer = qp.OnWire(e.local)
	}
	c.Far, c.Owner = c, c
	return c
}

// make makes what this end passes to the peer: the bells, and the area with the number of
// lanes that the peer named in its first message.
func (c *channel) make(m *message) (err error) {
	own, lanes := c.host.cfg.Lanes, m.lanes
	c.Lanes, c.First, c.Of = lanes, int(m.first), int(m.of)
	size := hostmem.AreaSize(own, lanes)
	if c.out, err = newMemory(size); err != nil {
		return err
	}
	b := c.out.Bytes()
	copy(b[len(b)-unix.Getpagesize():], c.nonce[:])
	c.Out = hostmem.NewArea(b[:size], own, lanes)
	for k := range own {
		bell, err := c.host.cfg.Bell(k, c.Owner)
		if err != nil {
			return resources(0, err)
		}
		c.bells = append(c.bells, bell)
	}
	return nil
}

// sendMemory sends a message with the descriptors of the area and the bells.
func (c *channel) sendMemory(m *message) error {
	fds := []int{c.out.FD()}
	var ours unixmsg.Descriptors
	defer func() { ours.Close() }()
	for _, b := range c.bells {
		fd := b.FD()
		if !c.same {
			var err error
			if fd, err = b.ForOther(); err != nil {
				return resources(0, err)
			}
			ours = append(ours, fd)
		}
		fds = append(fds, fd)
	}
	if err := c.send(m, fds...); err != nil {
		return err
	}
	return c.out.CloseFD()
}

// take maps the peer's area and takes its bells.
func (c *channel) take(fds unixmsg.Descriptors) (err error) {
	own := c.host.cfg.Lanes
	size := hostmem.AreaSize(c.Lanes, own)
	if c.in, err = hostmem.MapMemory(fds[0], size+unix.Getpagesize(), true); err != nil {
		return resources(size, err)
	}
	if c.In, err = hostmem.OpenArea(c.in.Bytes()[:size], c.Lanes, own); err != nil {
		return err
	}
	for i := range c.Lanes {
		if c.same {
			if err := isBell(fds[1+i]); err != nil {
				return err
			}
		}
		r, err := hostmem.OpenRinger(fds.Take(1+i), !c.same)
		if err != nil {
			return err
		}
		c.ringers = append(c.ringers, r)
	}
	return nil
}

// checkNonce checks that the peer has seen our nonce in our area.
func (c *channel) checkNonce(seen nonce) error {
	if seen == c.nonce {
		return nil
	}
	return reason.Detail{
		Reason: reason.HostNonce, Expected: binary.LittleEndian.Uint64(c.nonce[:]), Found: binary.LittleEndian.Uint64(seen[:]),
	}.Err()
}

// place returns the peer's place. The channel must have a name.
func (c *channel) place() place { return place{c.host.inZone(c.Peer), c.peer.slot} }

func (c *channel) attach() {
	c.use.Lock()
	defer c.use.Unlock()
	c.attached = true
	c.host.cfg.Attach(&c.Channel)
}

// detach ends the use of the channel, and reports whether it was in use.
func (c *channel) detach() bool {
	c.use.Lock()
	defer c.use.Unlock()
	was := c.attached
	c.attached = false
	if was {
		c.host.cfg.Detach(&c.Channel)
	}
	return was
}

// run serves the connection until it ends.
func (c *channel) run() {
	var m message
	for {
		fds, err := c.receive(&m)
		if err == nil {
			err = c.handle(&m, fds)
		}
		fds.Close()
		if err != nil {
			c.end(err)
			return
		}
	}
}

// end frees the channel. It removes the peer's name if the peer's process was killed.
func (c *channel) end(why error) {
	c.ended.Store(true)
	_ = c.UnixConn.Close()
	if c.Peer.IsValid() {
		c.host.remove(c, c.endReason(why))
	}
	used := c.detach()
	c.outbox.close()
	c.free()
	if used && c.same {
		c.host.forget(c.peer)
	}
	c.host.leave(c.UnixConn)
}

// endReason returns the named reason why a channel has ended, or nil if this end closed it. A
// peer ends a channel by closing the connection.
func (c *channel) endReason(why error) error {
	var named *reason.Error
	switch {
	case errors.As(why, &named):
		return why
	case errors.Is(why, net.ErrClosed):
		return nil
	}
	return failure(reason.HostClosed, c.process.pid, why)
}

// free unmaps and closes everything.
func (c *channel) free() {
	c.views.end()
	c.segments.free()
	for _, b := range c.bells {
		b.Close()
	}
	for _, r := range c.ringers {
		_ = r.Close()
	}
	for _, m := range []*hostmem.Memory{c.out, c.in} {
		if m != nil {
			_ = m.Close()
		}
	}
}

// Ring implements hostmem.Far.
func (c *channel) Ring(lane int) { c.ringers[lane].Ring() }

// Close implements hostmem.Far: run then ends the channel.
func (c *channel) Close() {
	c.ended.Store(true)
	_ = c.UnixConn.Close()
}

var _ hostmem.Far = (*channel)(nil)
