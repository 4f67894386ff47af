package msg

import (
	"context"
	"fmt"
	"slices"

	"softrdma/internal/message"
	"softrdma/msg/internal/ring"
	"softrdma/verbs"
)

const (
	ringBatch = 32  // frames that are taken from one ring before those of others
	maxLooks  = 128 // in a row at rings that are never empty
)

// maxRings bounds the connections of a worker that have rings. Each costs time in every look, and a
// descriptor. It is a variable for tests.
var maxRings = 64

// A ringPair carries the frames of a connection through shared memory, beside its queue pair. The peer is
// on the same host and the connection has one rail. Both ends offer their memory, map the other's, and say
// so. Then each says on the queue pair that its next frames are in its ring. READs and WRITEs use the
// queue pair, and so do the frames of the ring's own protocol. A connection that is made while the device
// captures packets has no rings.
//
// The worker's lock guards it.
type ringPair struct {
	memory   *verbs.Memory
	region   *verbs.MR
	view     *verbs.View // of the peer's memory
	cancel   func()      // ends the attempt to map it
	writer   *ring.Writer
	reader   *ring.Reader
	offered  bool      // the peer has offered its memory
	mapped   bool      // the peer has mapped this end's
	sending  bool      // new frames go through the ring, or wait
	bellDue  bool      // the bell waits for a slot of the queue pair
	arriving bool      // the machine is taking a frame that lies in the ring
	spare    []*Active // for keep
}

// offerRing begins to use shared memory if the peer is on the same host. The caller holds the lock.
func (c *connection) offerRing() {
	path := c.QP().Path()
	if c.group != nil || c.w.ringed >= maxRings || path != verbs.PathSameHost && path != verbs.PathSameProcess || c.rail.on.Dev.Capturing() {
		return
	}
	n := ring.Size(max(c.takes.FrameLen(), c.w.address.Accepts.FrameLen()))
	d := &c.rings
	var err error
	if d.memory, err = verbs.AllocMemory(n, verbs.AllocConfig{Device: c.rail.on.Dev}); err == nil && d.memory.Shared() {
		d.region, _ = c.rail.pd.RegisterMemory(d.memory.Bytes(), verbs.RemoteRead)
	}
	if d.region == nil { // also after an error: frames then use the queue pair
		d.free()
		*d = ringPair{}
		return
	}
	c.w.ringed++
	c.Add(ring.Control{Kind: ring.Offer, Address: d.region.Addr(), Key: d.region.RKey(), Len: n}.Bytes())
}

// free frees the memory of a connection that has ended.
func (d *ringPair) free() {
	if d.view != nil {
		_ = d.view.Close()
	}
	if d.region != nil {
		_ = d.region.Deregister() // no window is bound to it
	}
	if d.memory != nil {
		_ = d.memory.Free()
	}
}

// control takes a frame of the ring's protocol.
func (c *connection) control(b []byte) error {
	x, err := ring.ParseControl(b)
	if err != nil {
		return err
	}
	d := &c.rings
	switch {
	case x.Kind == ring.Offer && !d.offered:
		if d.offered = true; d.region != nil && x.Len == d.region.Len() {
			ctx, cancel := context.WithCancel(c.w.context)
			d.cancel = cancel
			c.w.running.Go(func() {
				defer cancel()
				c.mapRing(ctx, x)
			})
		}
	case x.Kind == ring.Mapped && d.region != nil && !d.mapped:
		d.mapped = true
		c.enterRing()
	case x.Kind == ring.Entered && d.reader != nil && !slices.Contains(c.w.rings, c):
		c.w.rings = append(c.w.rings, c)
		d.reader.Sleep() // the worker may be about to
	case x.Kind != ring.Bell:
		return fmt.Errorf("%w: control frame of kind %d, which nothing asked for", ErrFrame, x.Kind)
	}
	return nil
}

// mapRing maps the memory that the peer has offered.
func (c *connection) mapRing(ctx context.Context, x ring.Control) {
	w, d := c.w, &c.rings
	v, err := c.QP().View(ctx, x.Address, x.Key, x.Len)
	if err != nil {
		return // frames use the queue pair
	}
	w.e.Lock()
	defer w.unlock()
	if c.err != nil {
		_ = v.Close()
		return
	}
	d.view = v
	d.writer, err = ring.NewWriter(d.memory.Bytes(), v.Bytes())
	if err == nil {
		d.reader, err = ring.NewReader(d.memory.Bytes(), v.Bytes(), w.address.Accepts.FrameLen())
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.Add(ring.Control{Kind: ring.Mapped}.Bytes())
	c.enterRing()
	w.e.Flush()
}

// enterRing makes new frames use the ring once both ends have mapped the other's memory.
func (c *connection) enterRing() {
	if d := &c.rings; d.mapped && d.view != nil {
		c.Enter(ring.Control{Kind: ring.Entered}.Bytes(), shortcut{c})
		d.sending = true
	}
}

// A shortcut is the ring as the carrier knows it.
type shortcut struct{ c *connection }

// Reserve implements carrier.Shortcut, as the methods below do.
func (s shortcut) Reserve(n int) []byte { return s.c.rings.writer.Reserve(n) }

// Await asks the peer to tell when it has taken frames.
func (s shortcut) Await() bool { return s.c.rings.writer.Await() }

// Commit sends the frame of n bytes that was written to the ring.
func (s shortcut) Commit(n int) {
	if s.c.rings.writer.Commit(n); s.c.rings.writer.Bell() {
		s.c.ringBell()
	}
}

// ringBell rings the peer's bell. Without a vacant slot, Push calls it again.
func (c *connection) ringBell() {
	c.rings.bellDue = !c.Raw(ring.Control{Kind: ring.Bell}.Bytes())
}

// takeRing takes frames out of the ring, and returns how many. The caller calls Worker.flush.
func (c *connection) takeRing() (n int) {
	d := &c.rings
	for n < ringBatch {
		b, err := d.reader.Next()
		if b == nil && err == nil {
			break
		}
		if n++; err == nil {
			d.arriving = true
			err = c.w.machine.Arrive(c.peer, b)
			d.arriving = false
		}
		if err != nil {
			c.fail(err)
			return n
		}
		d.reader.Release()
	}
	if n > 0 && d.reader.Show() {
		c.ringBell()
	}
	if d.writer.Moved() || n > 0 && (c.Left() < c.Entered() || len(c.flushes) > 0 || c.closing) {
		c.Mark()
	}
	return n
}

// drainRing takes the frames that a peer sent before its connection ended.
func (c *connection) drainRing() {
	for looks := 0; looks < maxLooks && slices.Contains(c.w.rings, c) && c.takeRing() > 0; looks++ {
	}
}

// devicesDue reports whether to poll the devices after a look into the rings. They are polled at once
// if READs, WRITEs or atomics are in flight, or if some peers have no rings.
func (w *Worker) devicesDue(found bool) bool {
	must := w.e.Due() || len(w.rings) < len(w.conns) || len(w.rings) == 0 || w.exposed > 0
	return w.turns.Due(found, must || slices.ContainsFunc(w.rings, (*connection).moving))
}

// moving reports whether READs, WRITEs or atomics are in flight.
func (c *connection) moving() bool { return c.Moving() > 0 || !c.pipeline.Idle() }

// takeRings takes frames out of all rings: at most ringBatch of each, or all frames if the worker is about
// to sleep. If frames keep coming, it stops and raises another event.
func (w *Worker) takeRings() (total int) {
	for looks := 0; ; looks++ {
		n := 0
		for i := 0; i < len(w.rings); i++ {
			n += w.rings[i].takeRing()
		}
		if total += n; w.e.Marked() {
			w.e.Flush()
		}
		if n == 0 || !w.turns.All {
			return total
		}
		if looks == maxLooks && !w.closed {
			w.running.Go(func() {
				w.e.Lock()
				w.event()
				w.unlock()
			})
			return total
		}
	}
}

// keep copies a message out of the ring, so that its bytes outlive the frame.
func (d *ringPair) keep(a *message.Active) *Active {
	var m *Active
	if n := len(d.spare); n > 0 {
		m = d.spare[n-1]
		d.spare = d.spare[:n-1]
	} else {
		m = &Active{buf: []byte{}} // no data is not nil
	}
	m.buf = append(append(m.buf[:0], a.Header...), a.Data...)
	n := len(a.Header)
	a.Header = m.buf[:n:n]
	if a.Data != nil {
		a.Data = m.buf[n:]
	}
	return m
}
