package msg

import (
	"errors"
	"fmt"
	"slices"

	"softrdma/internal/carrier"
	"softrdma/internal/message"
	"softrdma/msg/internal/access"
	"softrdma/msg/internal/ring"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const (
	sendSlots   = 64 // frames in flight
	signalEvery = 16 // frames of which one has a completion
)

// A connection carries frames to and from one worker. The worker's lock guards it.
type connection struct {
	*carrier.Conn // of a group without a queue pair

	w          *Worker
	rail       *rail
	group      *group // nil if the endpoint has one rail
	pair       int    // of the group
	generation uint32 // of the connections of that rail, from 1
	parts      int    // of messages of a group that may be in flight
	takes      message.Config
	worker     uint64 // the peer's; 0 if it is not known
	private    []byte // from the peer's program
	peer       *message.Peer
	extra      int // bytes before each frame

	endpoint Endpoint
	actives  []Active // by receive
	arriving int      // the receive with the frame that the machine takes
	taken    bool     // an active message keeps it
	pipeline access.Pipeline
	err      error      // why the connection failed
	flushes  []flush    // that wait for sends, oldest first
	closing  bool       // no sends begin any more
	idle     []*Request // end when nothing is in flight
	rings    ringPair
}

// newConnection makes a connection on a device, with its receives posted, for frames of extra bytes more.
// After an error the caller discards what there is of it.
func (w *Worker) newConnection(r *rail, extra int, create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)) (c *connection, err error) {
	c = &connection{w: w, rail: r, extra: extra, parts: railParts}
	c.endpoint.c = c
	c.pipeline.Config = access.Config{Port: port{c}, Domain: w.domain, Rail: r.on, Cache: r.cache, Repeat: extra > 0}
	receives := w.config.Unexpected + w.config.Active + carrier.SpareReceives
	c.actives = make([]Active, receives)
	var joins func(frame, next []byte) bool
	if extra == 0 {
		joins = message.Joins
	}
	c.Conn, err = w.e.NewConn(carrier.ConnConfig{
		Owner: c, Domain: w.domain, Rail: r.on, Receives: receives, Frame: extra + w.address.Accepts.FrameLen(), Slots: sendSlots, Queue: carrier.FarQueue,
		Others: maxAccesses, Inline: shortAccess, Every: signalEvery, Joins: joins, Placed: extra > 0, Timeout: w.config.PeerTimeout,
	}, create)
	return c, err
}

// meet prepares the connection to send to a worker with a configuration.
func (c *connection) meet(takes message.Config) error {
	c.takes = takes
	return c.Prepare(c.extra + takes.FrameLen())
}

// Arrive implements carrier.Owner, as the methods below do.
func (c *connection) Arrive(_ *carrier.Conn, frame []byte, at int) (keep bool, err error) {
	c.arriving, c.taken = at, false
	err = c.arrive(frame)
	return c.taken, err
}

// Sent has nothing to do: all slots are the carrier's.
func (c *connection) Sent(*carrier.Conn, int) {}

// Done takes the completion of an access.
func (c *connection) Done(_ *carrier.Conn, i int) { c.pipeline.Complete(i) }

// Drain takes the frames in the ring.
func (c *connection) Drain(*carrier.Conn) { c.drainRing() }

// arrive takes what arrived in the current slot.
func (c *connection) arrive(b []byte) error {
	switch {
	case c.group != nil:
		return c.group.arrive(c, b)
	case len(b) > 0 && b[0] == ring.Magic:
		return c.control(b)
	}
	return c.w.machine.Arrive(c.peer, b)
}

// Push does what waited for frames or accesses.
func (c *connection) Push(*carrier.Conn) {
	if c.rings.bellDue {
		c.ringBell()
	}
	switch g := c.group; {
	case c.logical():
		g.push()
	case g != nil:
		if g.pull(c); len(g.c.flushes) > 0 || g.c.closing {
			g.c.Mark()
		}
	default:
		c.passFlushes()
		if c.closing && c.err == nil && len(c.flushes) == 0 && !c.Busy() && c.peer.Waiting() == 0 && c.pipeline.Idle() {
			c.close()
		}
	}
}

// fail ends the connection and everything that waits for it. The caller holds the lock.
func (c *connection) fail(err error) {
	switch {
	case !c.logical():
		c.Fail(err)
	case c.err == nil:
		c.failed(err)
	}
}

// Failed ends the use of the queue pair. Afterwards the peer's READs and WRITEs do not access a buffer.
func (c *connection) Failed(*carrier.Conn) {
	_ = c.CM.Disconnect() // it may have ended
	if c.rings.cancel != nil {
		c.rings.cancel()
	}
	moves := c.Rescue()
	switch {
	case c.group == nil:
		c.failed(c.Err)
	case c.err == nil:
		c.group.fail(c, moves)
	}
}

// failed ends everything that waits for the connection.
func (c *connection) failed(err error) {
	c.err = fmt.Errorf("%w: %w", ErrPeer, err)
	if errors.Is(err, rdmacm.ErrDisconnected) {
		c.err = fmt.Errorf("%w: %w", ErrPeerClosed, err)
	}
	w := c.w
	if c.group != nil {
		c.group.end()
	}
	w.machine.Fail(c.peer, c.err)
	c.pipeline.End(c.err)
	if f := w.config.Failed; f != nil && !errors.Is(err, ErrClosed) {
		w.calls = append(w.calls, call{failed: f, from: &c.endpoint, err: c.err})
	}
	for _, f := range c.flushes {
		f.access.End(c.err)
	}
	for _, r := range c.idle {
		r.end(Info{}, c.err)
	}
	c.flushes, c.idle = nil, nil
	same := func(x *connection) bool { return x == c }
	w.conns = slices.DeleteFunc(w.conns, same)
	w.rings = slices.DeleteFunc(w.rings, same)
}

// Released frees what the connection owns beside that of the carrier.
func (c *connection) Released(*carrier.Conn) {
	w, d := c.w, c.rings // its memory is not used from now on
	if c.rings = (ringPair{}); d.region != nil {
		w.ringed--
	}
	w.e.Ending.Go(d.free)
	c.pipeline.Release()
}
